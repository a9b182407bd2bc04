// Writes findings as Events on the objects of one API server, for `kubectl describe`: each once, and again every hour
// while it lasts, since API servers forget Events after an hour. An Event's name follows from its content and the hour,
// so that a new leader writes none twice.

import { createHash } from 'node:crypto';
import type { SourceObject } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { backOffMs } from '../kube/back-off.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import { type KubeApi, type KubeFault, wordsOf } from '../kube/kube-api.ts';
import { kubeEvent } from '../kube/kube-event.ts';
import { events } from '../kube/resources.ts';
import { printable } from '../text/printable.ts';
import type { ObjectState } from './object-states.ts';
import { openPacedWork, type PacedWork } from './paced-work.ts';
import type { StateWriter, StateWriterOptions } from './status-writer.ts';

const HOUR_MS = 3_600_000;
/** Between two Events: at most ten a second. */
const PAUSE_MS = 100;
/** Of one object in an hour, so that one with a thousand bad hosts, or texts that keep changing, does not flood. */
const MAX_PER_OBJECT = 20;
/** How often to look whether we lead, and for what has come due. */
const IDLE_MS = 1000;

export interface EventWriterOptions extends StateWriterOptions {
  /** Which of our replicas. */
  readonly instance: string;
}

interface Entry {
  readonly object: SourceObject;
  readonly finding: Finding;
  writtenAt: number | undefined;
  notBefore: number;
  failures: number;
  error: string | undefined;
  isCurrent: boolean;
}

export function openEventWriter(api: KubeApi, options: EventWriterOptions): StateWriter {
  return new EventWriter(api, options);
}

class EventWriter implements StateWriter {
  readonly #api: KubeApi;
  readonly #options: EventWriterOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  /** By object, code and text. */
  readonly #entries = new Map<string, Entry>();
  /** When Events were written in the last hour, by object. */
  readonly #written = new Map<string, number[]>();
  /** The number of the last turn of each namespace: one with a thousand findings must not keep others waiting. */
  readonly #turns = new Map<string, number>();
  #turn = 0;
  readonly #work: PacedWork;

  constructor(api: KubeApi, options: EventWriterOptions) {
    const { clock = systemClock, random = Math.random } = options;
    this.#api = api;
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#work = openPacedWork(clock, () => this.#step());
  }

  update(states: readonly ObjectState[]): void {
    const now = this.#clock.now();
    for (const entry of this.#entries.values()) entry.isCurrent = false;
    for (const { object, findings } of states) {
      for (const finding of findings.slice(0, MAX_PER_OBJECT)) {
        const key = keyOf(object, finding);
        const entry = this.#entries.get(key) ?? newEntry(object, finding);
        entry.isCurrent = true;
        this.#entries.set(key, entry);
      }
    }
    // One that comes back within the hour is not written again.
    for (const [key, { isCurrent, writtenAt = Number.NEGATIVE_INFINITY }] of this.#entries)
      if (!isCurrent && now - writtenAt >= HOUR_MS) this.#entries.delete(key);
    for (const [uid, times] of this.#written)
      if (times.every(at => now - at >= HOUR_MS)) this.#written.delete(uid);
    const namespaces = new Set(this.#entries.values().map(({ object }) => object.namespace));
    for (const namespace of this.#turns.keys()) if (!namespaces.has(namespace)) this.#turns.delete(namespace);
    this.#work.wake();
  }

  get error(): string | undefined {
    return this.#entries.values().find(({ isCurrent, error }) => isCurrent && error !== undefined)?.error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#work[Symbol.asyncDispose]();
  }

  async #step(): Promise<number> {
    if (!this.#options.isLeader()) return IDLE_MS;
    const next = this.#next(this.#clock.now());
    if (next === undefined) return IDLE_MS;
    await this.#write(...next);
    return PAUSE_MS;
  }

  /** What is due in the namespace whose last turn was longest ago, and when its object had Events in the last hour. */
  #next(now: number): readonly [key: string, entry: Entry, recent: number[]] | undefined {
    let next: readonly [string, Entry, number[]] | undefined;
    let oldest = Number.POSITIVE_INFINITY;
    for (const [key, entry] of this.#entries) {
      const { object, isCurrent, notBefore } = entry;
      const turn = this.#turns.get(object.namespace) ?? 0;
      if (!isCurrent || notBefore > now || turn >= oldest) continue;
      const recent = (this.#written.get(object.uid) ?? []).filter(at => now - at < HOUR_MS);
      if (recent.length >= MAX_PER_OBJECT) continue;
      next = [key, entry, recent];
      oldest = turn;
    }
    if (next === undefined) return undefined;
    const [, { object }, recent] = next;
    this.#turns.set(object.namespace, ++this.#turn);
    this.#written.set(object.uid, recent);
    return next;
  }

  async #write(key: string, entry: Entry, recent: number[]): Promise<void> {
    const { object, finding } = entry;
    const now = this.#clock.date();
    const hour = Math.floor(now.getTime() / HOUR_MS);
    const { createdAt: _, ...regarding } = object;
    const event = kubeEvent({
      regarding,
      type: finding.severity === 'info' ? 'Normal' : 'Warning',
      reason: finding.code,
      note: printable(finding.fix === '' ? finding.text : `${finding.text}. ${finding.fix}`),
      action: 'Plan',
      instance: this.#options.instance,
      suffix: createHash('sha256').update(`${key} ${hour}`).digest('hex').slice(0, 16),
      now,
    });
    const written = await this.#api.create(events, event);
    if (!written.ok && !isAnswer(written.fault)) {
      entry.notBefore = this.#clock.now() + backOffMs(++entry.failures, this.#random);
      entry.error = `Cannot write an Event on ${object.namespace}/${object.name}; retrying: ${wordsOf(written.fault)}`;
      return;
    }
    entry.writtenAt = this.#clock.now();
    entry.notBefore = entry.writtenAt + HOUR_MS;
    entry.failures = 0;
    entry.error = undefined;
    recent.push(entry.writtenAt);
  }
}

function newEntry(object: SourceObject, finding: Finding): Entry {
  return {
    object,
    finding,
    writtenAt: undefined,
    notBefore: 0,
    failures: 0,
    error: undefined,
    isCurrent: true,
  };
}

/** Nothing to try again: another replica has written it, or its namespace is gone or going. */
function isAnswer({ status, reason, message }: KubeFault): boolean {
  return (
    reason === 'AlreadyExists' || status === 404 || (status === 403 && message.includes('being terminated'))
  );
}

function keyOf({ uid }: SourceObject, { code, text }: Finding): string {
  return `${uid} ${code} ${text}`;
}
