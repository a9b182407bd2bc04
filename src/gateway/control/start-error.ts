// Threads could not be started at all: for `run`, which exits with it, and for an edit, which is refused with it.

/** Descriptors that a process with few threads needs before it serves anybody. */
const FEW_FILES = 256;

export class StartError extends Error {
  override readonly name = 'StartError';
  readonly code = 'ERR_START';

  constructor(kind: string, cause: Error, openFiles: number) {
    const hint =
      openFiles < FEW_FILES
        ? `. The open-file limit is ${openFiles}, which is hardly enough to start: raise it (ulimit -n, LimitNOFILE)`
        : '';
    super(`Cannot start a ${kind} thread: ${cause.message}${hint}`, { cause });
  }
}
