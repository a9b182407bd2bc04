// Makes sure that the process exits. Node joins its threads before it exits, and exit(3) waits for the thread pool:
// one stuck thread (a write to a log pipe that nobody reads, a resolver that does not answer, a wait in epoll) would
// keep a process alive that serves nothing. So the last 'exit' listener calls _exit(2), which waits for nothing and
// keeps the exit code.

/** Call this early: loading the library needs a descriptor, and later there may be none left. */
export async function exitForSure(): Promise<void> {
  const exitNow = await loadExit();
  process.on('exit', code => {
    exitNow(code);
    // Reached only off Linux or without koffi: this loses the exit code, but ends the process.
    process.kill(process.pid, 'SIGKILL');
  });
}

async function loadExit(): Promise<(code: number) => void> {
  try {
    const { default: koffi } = await import('koffi');
    return koffi.load('libc.so.6').func('void _exit(int)');
  } catch {
    return () => {};
  }
}
