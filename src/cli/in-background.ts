// `causeway run --background`: starts the same command as a process of its own and waits until it serves, for supervisors and scripts that want to know how it went.

import { spawn } from 'node:child_process';

const FLAG = '--background';
/** What the process in the background says when it serves. */
const READY = 'ready';

/** Resolves to 0 once the process serves, or to the code that it exited with. */
export function startInBackground(): Promise<number> {
  const args = process.argv.slice(1).filter(arg => arg !== FLAG);
  const child = spawn(process.execPath, [...process.execArgv, ...args], {
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: ownEnvironment(process.env),
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('message', message => {
      if (message === READY) resolve(0);
    });
    child.once('exit', (code, signal) => resolve(code ?? (signal === null ? 0 : 1)));
  }).finally(() => {
    child.unref();
    if (child.connected) child.disconnect();
  }) as Promise<number>;
}

/** Tells the process that started this one in the background, if one did. */
export function tellReady(): void {
  if (process.send === undefined) return;
  process.send(READY);
  process.disconnect?.();
}

/** Sockets were passed to this process, not to its child. */
function ownEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { LISTEN_FDS: _fds, LISTEN_PID: _pid, LISTEN_FDNAMES: _names, ...rest } = environment;
  return rest;
}
