// No thread of a kind could be started: `run` exits with this error, and an edit is refused with it.

/** Descriptors that a process with few threads needs before it serves any client. */
const FEW_FILES = 256;

const shownKinds: Readonly<Record<string, string>> = {
  worker: 'a worker',
  stream: 'a stream',
  health: 'a health check',
};

export class StartError extends Error {
  override readonly name = 'StartError';
  readonly code = 'ERR_START';

  constructor(kind: string, cause: Error, openFiles: number) {
    const hint =
      openFiles < FEW_FILES
        ? `. The open-file limit is ${openFiles}, which is hardly enough to start: raise it (ulimit -n, LimitNOFILE)`
        : '';
    super(`Cannot start ${shownKinds[kind] ?? `a ${kind}`} thread: ${cause.message}${hint}`, { cause });
  }
}
