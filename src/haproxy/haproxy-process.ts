// One HAProxy, as master and worker: checked, started, and watched until it ends. The listening sockets are ours, and
// it gets duplicates: they outlive it, so that connections wait while another one starts, and two can serve at a time.
//
// The worker ends with its master, and the master with us (guardian.ts).

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { printable } from '../text/printable.ts';
import { API_SOCKET, CONFIG_FILE } from './engine-config.ts';
import type { Guardian } from './guardian.ts';
import { formatHaproxyAlert, parseHaproxyAlerts } from './haproxy-alerts.ts';
import { HaproxyError, type HaproxyProgram, withSbin } from './haproxy-program.ts';
import { LogSocket } from './log-socket.ts';
import { type RuntimeApi, runtimeApi } from './runtime-api.ts';

export interface HaproxyProcessOptions {
  readonly program: HaproxyProgram;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly guardian: Guardian;
  /** Private; made and removed with the process. */
  readonly folder: string;
  readonly config: string;
  /** By name: further files in the folder. */
  readonly files: ReadonlyMap<string, string>;
  /** Our listening sockets. In the process they have the numbers from FIRST_SOCKET on. */
  readonly sockets: readonly number[];
  readonly onLine: (line: string) => void;
}

/** The first that is neither input nor output. */
export const FIRST_SOCKET = 3;

/** A large configuration takes seconds to read. */
const START_MS = 60_000;
const POLL_MS = 10;
/** For lines that are still on their way when it has ended. */
const LAST_LINES_MS = 1000;
/** HAProxy sends the lines of its ring as soon as a thread has a moment. */
const RING_MS = 50;
/** What it said last, to explain its end. */
const KEPT_OUTPUT = 8192;

export class HaproxyProcess {
  readonly folder: string;
  readonly pid: number;
  readonly api: RuntimeApi;
  /** Resolves, to what it said last, when it has ended and its last lines are read. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  #isUp = true;

  private constructor(child: ChildProcess, log: LogSocket, options: HaproxyProcessOptions) {
    const { folder, guardian } = options;
    this.#child = child;
    this.folder = folder;
    this.pid = child.pid as number;
    this.api = runtimeApi(join(folder, API_SOCKET));
    guardian.guard(this.pid);
    const output = keepOutput(child);
    // A signal that could not be sent is no end: `exit` follows, or the process is gone already.
    child.on('error', () => {});
    const exit = new Promise<string>(resolve =>
      child.once('exit', (code, signal) => resolve(signal ?? `code ${code}`)),
    );
    this.ended = exit.then(async how => {
      this.#isUp = false;
      await log.end(LAST_LINES_MS);
      guardian.release(this.pid);
      await rm(folder, { recursive: true, force: true }).catch(() => {});
      const said = alertsIn(output());
      return `HAProxy ended with ${how}${said === '' ? '' : `: ${said}`}`;
    });
  }

  /** Resolves when it accepts connections. Throws a HaproxyError with HAProxy's own words if it does not. */
  static async start(options: HaproxyProcessOptions): Promise<HaproxyProcess> {
    const { folder, config, files } = options;
    try {
      await mkdir(folder, { mode: 0o700 });
      await Promise.all([...files].map(([name, text]) => writeFile(join(folder, name), text)));
      await writeFile(join(folder, CONFIG_FILE), config);
    } catch (error) {
      await rm(folder, { recursive: true, force: true }).catch(() => {});
      throw cannotWrite(error as NodeJS.ErrnoException);
    }
    try {
      await check(options);
      const started = await HaproxyProcess.#spawn(options);
      await started.#untilUp();
      return started;
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  static async #spawn(options: HaproxyProcessOptions): Promise<HaproxyProcess> {
    const log = await LogSocket.open(options.folder, options.onLine);
    try {
      return new HaproxyProcess(await spawned(options, ['-W']), log, options);
    } catch (error) {
      log.close();
      throw error;
    }
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Ends it and all its connections now. The worker notices that its master is gone. */
  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Ends it when its connections have ended and their lines are sent. */
  async end(): Promise<void> {
    await sleep(RING_MS);
    this.kill();
    await this.ended;
  }

  /** Without the runtime API: it accepts no more, and ends with its last connection. */
  finish(): void {
    this.#child.kill('SIGUSR1');
  }

  async #untilUp(): Promise<void> {
    const deadline = performance.now() + START_MS;
    while (!(await this.api('show info').catch(() => '')).includes('Uptime')) {
      if (!this.#isUp) throw new HaproxyError(await this.ended);
      if (performance.now() > deadline) {
        this.kill();
        throw new HaproxyError(`HAProxy did not start within ${START_MS / 1000} s`);
      }
      await sleep(POLL_MS);
    }
  }
}

/** For a folder for temporary files that is missing, full or not ours. */
export function cannotWrite({ message }: Error): HaproxyError {
  return new HaproxyError(
    `Cannot write the files of HAProxy: ${printable(message)}; TMPDIR chooses the folder for temporary files`,
  );
}

/** `haproxy -c`: nothing is started or replaced by a configuration that HAProxy does not accept. */
async function check(options: HaproxyProcessOptions): Promise<void> {
  const child = await spawned(options, ['-c']);
  const output = keepOutput(child);
  const closed = once(child, 'close');
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, START_MS);
  options.guardian.guard(child.pid as number);
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  options.guardian.release(child.pid as number);
  clearTimeout(timer);
  // If it is a script, something that it started may keep the pipes open.
  await Promise.race([closed, sleep(LAST_LINES_MS)]);
  for (const stream of [child.stdout, child.stderr]) stream?.destroy();
  if (isLate) throw new HaproxyError(`HAProxy did not check its configuration within ${START_MS / 1000} s`);
  if (code === 0) return;
  const said = alertsIn(output());
  throw new HaproxyError(
    `HAProxy ${options.program.version.text} does not accept its configuration (${signal ?? `code ${code}`}): ${said}`,
  );
}

async function spawned(
  { program, environment, folder, sockets }: HaproxyProcessOptions,
  args: readonly string[],
): Promise<ChildProcess> {
  const child = spawn(program.path, [...args, '-f', join(folder, CONFIG_FILE)], {
    // A signal from the terminal is for us: we drain.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', ...sockets],
    env: withSbin(environment),
    cwd: folder,
  });
  if (child.pid === undefined) {
    const [error] = (await once(child, 'error')) as [Error];
    throw new HaproxyError(`Cannot start HAProxy '${program.path}': ${error.message}`);
  }
  return child;
}

function keepOutput(child: ChildProcess): () => string {
  let kept = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      kept = (kept + chunk.toString('latin1')).slice(-KEPT_OUTPUT);
    });
  }
  return () => kept;
}

function alertsIn(output: string): string {
  const alerts = parseHaproxyAlerts(output).filter(({ level }) => level === 'alert');
  return alerts.map(formatHaproxyAlert).join('; ');
}
