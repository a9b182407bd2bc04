// A haproxy that serves: what it was started with, the state that it has, and what we ask it over the runtime API.

import { join } from 'node:path';
import type { HaproxyProcess } from './haproxy-process.ts';
import { runCommands } from './runtime-api.ts';
import { commandsBetween, type RuntimeState } from './runtime-state.ts';
import type { SectionCounts } from './sections.ts';
import { parseSessions, parseStat, type Session } from './show-stat.ts';

/** What commands cannot change. */
export interface StartedWith {
  readonly number: number;
  readonly sections: SectionCounts;
  readonly alpn: readonly string[];
  /** Listeners and settings, as text. */
  readonly fixed: string;
  readonly listeners: readonly string[];
  readonly config: string;
}

export interface OpenCounts {
  /** Connections of clients. */
  readonly connections: number;
  /** By `section/server` and `section/BACKEND`. */
  readonly stat: ReadonlyMap<string, number>;
}

export class RunningHaproxy {
  readonly haproxy: HaproxyProcess;
  readonly startedWith: StartedWith;
  /** Why another process must replace it: its state is uncertain, or it cannot be reached. */
  doubt: string | undefined;
  /** Since when it has not answered; undefined if it answered last time. */
  silentSince: number | undefined;
  #state: RuntimeState;
  /** Log lines that found the ring full. */
  #dropped = 0;
  #reported = 0;

  constructor(haproxy: HaproxyProcess, startedWith: StartedWith, state: RuntimeState) {
    this.haproxy = haproxy;
    this.startedWith = startedWith;
    this.#state = state;
  }

  get isUp(): boolean {
    return this.haproxy.isUp;
  }

  /** Sends what differs from the last state. */
  async update(state: RuntimeState): Promise<void> {
    const path = (file: string) => join(this.haproxy.folder, file);
    // HAProxy knows only the maps that a rule reads.
    const isRead = (file: string) => this.startedWith.config.includes(`/${file})`);
    await runCommands(this.haproxy.api, commandsBetween(this.#state, state, path, isRead));
    this.#state = state;
  }

  /** One that does not answer gets a signal, after which it answers no more. */
  async stopAccepting(): Promise<void> {
    try {
      if (this.doubt !== undefined) throw new Error(this.doubt);
      const { listeners } = this.startedWith;
      await this.haproxy.api(listeners.map((_, index) => `shutdown frontend l${index}`).join(';'));
    } catch (error) {
      this.haproxy.finish();
      throw error;
    }
  }

  async count(): Promise<OpenCounts> {
    const text = await this.#stat();
    const stat = parseStat(text);
    const { listeners } = this.startedWith;
    const connections = listeners.reduce((sum, _, index) => sum + (stat.get(`l${index}/FRONTEND`) ?? 0), 0);
    this.#dropped = Number(/^DroppedLogs: (\d+)/m.exec(text)?.[1] ?? 0);
    return { connections, stat };
  }

  /** Counting the servers of a large table can take longer than an answer may: so one that does not count is asked less. */
  async #stat(): Promise<string> {
    const begun = performance.now();
    try {
      const text = await this.haproxy.api('show stat -1 7 -1;show info');
      if (!text.startsWith('# pxname')) throw new Error('HAProxy did not list its connections');
      this.silentSince = undefined;
      return text;
    } catch (error) {
      const answer = await this.haproxy.api('show info').catch(() => '');
      this.silentSince = answer === '' ? (this.silentSince ?? begun) : undefined;
      throw error;
    }
  }

  /** How many log lines were lost since the last call, as of the last count. */
  takeDropped(): number {
    const dropped = this.#dropped - this.#reported;
    this.#reported = this.#dropped;
    return dropped;
  }

  /** Connections of clients; those between frontends and to the API are ours. */
  async sessions(): Promise<Session[]> {
    const sessions = parseSessions(await this.haproxy.api('show sess all'), Date.now());
    return sessions.filter(({ frontend }) => /^l\d+$/.test(frontend));
  }

  /** False if there is no such session. */
  async endSession(number: number, pointer: string): Promise<boolean> {
    const [session] = parseSessions(await this.haproxy.api(`show sess ${pointer}`), Date.now());
    if (session?.number !== number) return false;
    await this.haproxy.api(`shutdown session ${pointer}`);
    return true;
  }

  async endSessions(): Promise<void> {
    const sessions = await this.sessions();
    await runCommands(
      this.haproxy.api,
      sessions.map(({ pointer }) => `shutdown session ${pointer}`),
      // One that has ended by itself.
      () => true,
    );
  }
}
