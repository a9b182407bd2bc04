// The running gateway cannot be replaced now. It goes on; the new process exits with this error.

export class ReplaceError extends Error {
  override readonly name = 'ReplaceError';
}
