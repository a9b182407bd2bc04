// Starts a real program for a test, waits until it is ready, keeps what it prints, and leaves nothing behind:
// `await using proxy = await startProgram({ ... })`. The typed starters (start-haproxy.ts, ...) use this.

import { connect } from 'node:net';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { keptLog } from './kept-log.ts';
import { describeExit, type Exit, type SpawnOptions, spawnGroup } from './process-group.ts';
import { run } from './run.ts';

/** Starts take well under a second on a quiet machine; this is for a busy one. */
const READY_TIMEOUT_MS = 120_000;
/** A killed program leaves its files behind, so a slow end is waited for. */
const STOP_TIMEOUT_MS = 60_000;
/** Between two checks of a log, a port or a probe. */
const POLL_MS = 20;
/** Log lines in an error message. */
const TAIL_LINES = 25;

type Ready =
  /** It has printed this. */
  | { readonly log: RegExp }
  /** It accepts connections there (default host 127.0.0.1); the check is one connection without a byte. */
  | { readonly port: number | readonly [host: string, port: number] }
  /** This returns true. */
  | { readonly probe: () => Promise<boolean> };

export interface ProgramOptions extends SpawnOptions {
  readonly ready: Ready;
  readonly readyTimeoutMs?: number;
  /** Default SIGTERM. */
  readonly stopSignal?: NodeJS.Signals;
  /** Then SIGKILL follows. */
  readonly stopTimeoutMs?: number;
}

export interface Program extends AsyncDisposable {
  readonly pid: number;
  /** What it has printed so far, stdout and stderr interleaved. */
  log(): string;
  /** Waits until the log matches. Rejects if the program ends first, or after the time-out. */
  logged(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray>;
  /** Undefined while it runs. */
  exit(): Exit | undefined;
  /** Resolves when it has ended, on its own or by `stop()`. Never rejects. */
  readonly ended: Promise<Exit>;
  /** Sends a signal to the program only, not to its group. */
  signal(signal: NodeJS.Signals): void;
  /** Stops it and whatever it started. May be called more than once. */
  stop(): Promise<Exit>;
}

/** Starts a program and resolves when it is ready. Otherwise it is stopped, and the error has its last lines. */
export async function startProgram(options: ProgramOptions): Promise<Program> {
  const program = await launch(options);
  const { ready, readyTimeoutMs = READY_TIMEOUT_MS } = options;
  try {
    if ('log' in ready) await program.logged(ready.log, readyTimeoutMs);
    else
      await program.until(
        'get ready',
        readyTimeoutMs,
        'probe' in ready ? ready.probe : () => accepts(ready.port, options.netns),
      );
    return program;
  } catch (error) {
    await program.stop();
    throw error;
  }
}

interface Launched extends Program {
  until<T>(what: string, timeoutMs: number, ask: () => T | Promise<T>): Promise<NonNullable<T>>;
}

async function launch(options: ProgramOptions): Promise<Launched> {
  const { command, args = [], stopSignal = 'SIGTERM', stopTimeoutMs = STOP_TIMEOUT_MS } = options;
  const name = basename(command);
  const log = keptLog(name, [command, ...args]);
  const group = await spawnGroup(options, log.add);

  let exit: Exit | undefined;
  const ended = group.ended.then(how => (exit = how));

  let stopped: Promise<Exit> | undefined;
  async function stopOnce(): Promise<Exit> {
    if (exit !== undefined) return exit;
    group.child.kill(stopSignal);
    const timer = setTimeout(group.kill, stopTimeoutMs);
    const how = await ended;
    clearTimeout(timer);
    return how;
  }
  const stop = () => (stopped ??= stopOnce());

  /** Polls until the answer is truthy, the program has ended, or the time is up. */
  async function until<T>(
    what: string,
    timeoutMs: number,
    ask: () => T | Promise<T>,
  ): Promise<NonNullable<T>> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      // Read before asking: the last line that it printed may be the answer.
      const before = exit;
      const answer = await ask();
      if (answer) return answer;
      if (before !== undefined)
        throw new Error(`${name} ended (${describeExit(before)}) and did not ${what}${tail(log.text())}`);
      if (performance.now() > deadline)
        throw new Error(`${name} did not ${what} within ${timeoutMs} ms${tail(log.text())}`);
      await delay(POLL_MS);
    }
  }

  return {
    pid: group.pid,
    log: log.text,
    logged: (pattern, timeoutMs = READY_TIMEOUT_MS) =>
      until(`print ${pattern}`, timeoutMs, () => pattern.exec(log.text())),
    exit: () => exit,
    ended,
    signal: signal => void group.child.kill(signal),
    stop,
    until,
    [Symbol.asyncDispose]: async () => void (await stop()),
  };
}

async function accepts(
  target: number | readonly [string, number],
  netns: SpawnOptions['netns'],
): Promise<boolean> {
  const [host, port] = typeof target === 'number' ? ['127.0.0.1', target] : target;
  if (netns !== undefined) {
    const dial = ['-c', 'exec 3<>"/dev/tcp/$0/$1"', host, String(port)];
    return (await run('bash', dial, { netns })).code === 0;
  }
  return new Promise(resolve => {
    const socket = connect({ host, port });
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

function tail(log: string): string {
  const lines = log.trimEnd().split('\n');
  if (log.trim() === '') return ', and printed nothing';
  const left = lines.length > TAIL_LINES ? `(${lines.length - TAIL_LINES} lines before)\n` : '';
  return `. It printed:\n${left}${lines.slice(-TAIL_LINES).join('\n')}`;
}
