// The haproxy that accepts, and former ones that keep their connections. All of them share our listening sockets, so
// that a new one accepts before the former one stops.

import { mkdtemp, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GatewayConfig } from '../gateway/control/gateway-port.ts';
import { engineConfig, listFilesOf, SCRIPT_FILE } from './engine-config.ts';
import { ENGINE_SCRIPT } from './engine-script.ts';
import { Guardian } from './guardian.ts';
import { cannotWrite, FIRST_SOCKET, HaproxyProcess } from './haproxy-process.ts';
import type { HaproxyProgram } from './haproxy-program.ts';
import { errorFiles } from './http-answers.ts';
import { RunningHaproxy } from './running-haproxy.ts';
import { filesOf, type RuntimeState } from './runtime-state.ts';
import { type SectionCounts, withSpare } from './sections.ts';

/**
 * Between two new processes: changes that come faster share one, since each haproxy stays until its last connection has
 * ended.
 */
const RELOAD_PAUSE_MS = 2000;
/** How often a former haproxy is asked whether connections are left. */
const POLL_MS = 1000;

export interface HaproxyProcessesOptions {
  readonly program: HaproxyProgram;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly workers: number;
  /** Descriptors of our listening sockets, by listener. */
  readonly sockets: () => readonly (readonly number[])[];
  /** A line of HAProxy's log; `listeners` as in its configuration. */
  readonly onLine: (line: string, listeners: readonly string[]) => void;
  /** The one that should accept has ended; `text` is what it said last. */
  readonly onEnd: (text: string) => void;
  /** Another process serves from now on. */
  readonly onReload: (reload: {
    readonly reloads: number;
    readonly why: string;
    readonly pid: number;
  }) => void;
}

/** What a haproxy must serve. */
export interface Wanted {
  readonly config: GatewayConfig;
  readonly state: RuntimeState;
  readonly needed: SectionCounts;
  readonly alpn: readonly string[];
}

export class HaproxyProcesses implements AsyncDisposable {
  readonly #options: HaproxyProcessesOptions;
  #folder: string;
  readonly #guardian: Guardian;
  #current: RunningHaproxy | undefined;
  readonly #former = new Set<RunningHaproxy>();
  #started = 0;
  #startedAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  /** `folder`: a private folder, which is removed at the end. */
  constructor(options: HaproxyProcessesOptions, folder: string) {
    this.#options = options;
    this.#folder = folder;
    this.#guardian = new Guardian(folder);
  }

  /** Undefined before the first start; may have ended. */
  get current(): RunningHaproxy | undefined {
    return this.#current;
  }

  get all(): readonly RunningHaproxy[] {
    const current = this.#current === undefined ? [] : [this.#current];
    return [...current, ...this.#former].filter(({ isUp }) => isUp);
  }

  /** From now on `replace` throws. */
  close(): void {
    this.#isClosed = true;
  }

  /** Ends all of them. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await Promise.all(this.all.map(({ haproxy }) => haproxy.end()));
    this.#guardian[Symbol.dispose]();
  }

  /** Starts another haproxy, which accepts when this resolves; the former one accepts no more. */
  async replace(wanted: Wanted, why: string): Promise<void> {
    const former = this.#current;
    if (former?.isUp === true) await sleep(this.#startedAt + RELOAD_PAUSE_MS - performance.now());
    this.#mustBeOpen();
    const running = await this.#start(wanted);
    if (this.#isClosed) {
      running.haproxy.kill();
      this.#mustBeOpen();
    }
    this.#current = running;
    this.#startedAt = performance.now();
    void running.haproxy.ended.then(text => this.#onEnd(running, text));
    if (former === undefined) return;
    this.#options.onReload({ reloads: this.#started - 1, why, pid: running.haproxy.pid });
    if (!former.isUp) return;
    const stopped = former.stopAccepting();
    void this.#retire(former, wanted.config.drainMs, stopped);
    // What is served from now on is not refused by the former one.
    await stopped.catch(() => {});
  }

  #onEnd(running: RunningHaproxy, text: string): void {
    if (running === this.#current && !this.#isClosed) this.#options.onEnd(text);
  }

  #mustBeOpen(): void {
    if (this.#isClosed) throw new Error('The gateway is draining');
  }

  async #start({ config, state, needed, alpn }: Wanted): Promise<RunningHaproxy> {
    const { program, environment, workers, onLine } = this.#options;
    const number = this.#started + 1;
    const folder = join(await this.#ownFolder(), String(number));
    const sections = withSpare(needed);
    const descriptors = this.#options.sockets();
    const listeners = config.listeners.map(({ on }) => on);
    let next = FIRST_SOCKET;
    const text = engineConfig({
      folder,
      listeners: config.listeners,
      sockets: descriptors.map(sockets => sockets.map(() => next++)),
      settings: config.settings,
      threads: workers,
      sections,
      servers: state.servers,
      alpn,
    });
    const empty = listFilesOf(sections).map(file => [file, ''] as const);
    const haproxy = await HaproxyProcess.start({
      program,
      environment,
      guardian: this.#guardian,
      folder,
      config: text,
      files: new Map([...empty, ...filesOf(state), [SCRIPT_FILE, ENGINE_SCRIPT], ...errorFiles]),
      sockets: descriptors.flat(),
      onLine: line => onLine(line, listeners),
    });
    this.#started = number;
    const fixed = fixedText(config);
    return new RunningHaproxy(haproxy, { number, sections, alpn, fixed, listeners, config: text }, state);
  }

  /** The folder of all our files; a new one if somebody removed it. */
  async #ownFolder(): Promise<string> {
    const isThere = await stat(this.#folder).then(
      () => true,
      () => false,
    );
    if (!isThere) {
      this.#folder = await privateFolder();
      this.#guardian.remove(this.#folder);
    }
    return this.#folder;
  }

  /** It keeps its connections until they end, at most as long as a drain may take. */
  async #retire(running: RunningHaproxy, drainMs: number | undefined, stopped: Promise<void>): Promise<void> {
    this.#former.add(running);
    const deadline = performance.now() + (drainMs ?? 0);
    try {
      await stopped;
      while (running.isUp && performance.now() < deadline) {
        if ((await running.count()).connections === 0) break;
        await sleep(POLL_MS);
      }
      if (performance.now() >= deadline) await running.endSessions();
    } catch {
      // It has ended, or does not answer: it ends by itself with its last connection.
      running.haproxy.finish();
      const timer = new AbortController();
      const late = sleep(Math.max(0, deadline - performance.now()), undefined, timer).catch(() => {});
      await Promise.race([running.haproxy.ended, late]);
      timer.abort();
    }
    await running.haproxy.end();
    this.#former.delete(running);
  }
}

/** What a running haproxy cannot change. */
export function fixedText({ listeners, settings }: GatewayConfig): string {
  const { log: _log, secrets: _secrets, clientFiles: _files, ...fixed } = settings;
  return JSON.stringify({ listeners, fixed });
}

export function privateFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'causeway-haproxy-')).catch((error: Error) => {
    throw cannotWrite(error);
  });
}
