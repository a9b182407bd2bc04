// Makes the end of the process certain. Node joins its threads before it exits, and exit(3) waits for the thread pool:
// one thread that is stuck (a write to a log pipe that nobody reads, a resolver that does not answer, a wait in
// epoll) would keep a process that serves nobody. So the last listener of 'exit' ends the process by _exit(2), which
// waits for nothing and keeps the exit code.

/** Call it before anything can be stuck: there may be no descriptor left later on to load a library. */
export async function exitForSure(): Promise<void> {
  const leave = await loadExit();
  process.on('exit', code => {
    leave(code);
    // Not on Linux, or without koffi: no code, but an end.
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
