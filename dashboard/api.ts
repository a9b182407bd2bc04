// The admin API, as far as the page reads it (docs/operations.md). Fields that an older gateway may lack are optional:
// the page then shows less.

import { parsePrintable, printable } from './parse-printable.ts';

/** Close reason → number of connections that ended with it. */
export type Reasons = Readonly<Record<string, number>>;

/** Counted in the last five minutes. */
export interface Recent {
  /** Connections that began in that time. */
  readonly opened: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Connections that ended in that time. */
  readonly reasons: Reasons;
}

/** Counted since the start. */
export interface Counts {
  /** Connections that ended. */
  readonly connections: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly reasons: Reasons;
  readonly recent?: Recent;
}

export interface Status {
  readonly version: string;
  readonly engine: string;
  readonly workers: number;
  readonly uptimeSeconds: number;
  readonly generation: number;
  readonly listeners: readonly { readonly on: string; readonly address: string }[];
  readonly config: {
    readonly ok: boolean;
    readonly error: string | null;
    readonly restartNeeded: readonly string[];
  };
  readonly sources: readonly {
    readonly name: string;
    readonly up: boolean;
    readonly synced: boolean;
    readonly error: string | null;
  }[];
  /** About objects and files that give no cluster which is served. */
  readonly findings?: readonly {
    readonly severity: string;
    readonly code: string;
    readonly text: string;
    readonly fix: string;
    readonly source: string | null;
    /** `Kind namespace/name`. */
    readonly object: string | null;
  }[];
  readonly leader: boolean;
  readonly counts: {
    readonly clusters: number;
    readonly routes: number;
    readonly hosts: number;
    readonly connections: number;
  };
  readonly traffic?: Counts & {
    /** The part of it that belongs to no cluster. */
    readonly unrouted?: Counts;
  };
  /** `stretch`: factor by which intervals between checks exceed the configured ones. */
  readonly health?: { readonly backends: number; readonly down: number; readonly stretch: number };
}

export interface Backend {
  readonly address: string;
  /** null: not known, as before the first check. */
  readonly up: boolean | null;
  readonly connections?: number;
  /** The kind of check. */
  readonly health?: string;
  /** When it last went down or came back; missing if that never happened. */
  readonly since?: string;
  readonly why?: string;
}

export interface Route {
  readonly kind: string;
  readonly hosts: readonly string[];
  readonly backends: readonly Backend[];
  readonly connections: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly reasons?: Reasons;
  readonly recent?: Recent;
  readonly balance?: string;
  /** Redirects to https and has no backends. */
  readonly redirect?: boolean;
}

export interface Cluster {
  readonly name: string;
  readonly id: string | null;
  readonly source: string;
  readonly routes: readonly Route[];
  readonly findings: readonly {
    readonly severity: string;
    readonly code: string;
    readonly text: string;
    readonly fix: string;
  }[];
}

export interface Connection {
  readonly id: string;
  readonly client: string | null;
  readonly protocol: string | null;
  readonly host: string | null;
  readonly cluster: string | null;
  readonly route: string | null;
  readonly backend: string | null;
  readonly in: number;
  readonly out: number;
  readonly ms: number;
}

export interface RefusalEvent {
  readonly at: string;
  readonly reason: string;
  readonly host: string | null;
  readonly client: string | null;
  readonly cluster: string | null;
  readonly clusterId?: string | null;
  /** Why no backend was reached. */
  readonly error?: string | null;
  /** Refusals before this one that the gateway left out because there were too many. */
  readonly skipped?: number;
}

export interface HealthEvent {
  readonly at: string;
  readonly cluster: string;
  readonly route: string;
  readonly backend: string;
  readonly up: boolean | null;
  readonly why: string | null;
}

export interface TableEvent {
  readonly at: string;
  readonly generation: number;
  readonly clusters: number;
  readonly routes: number;
  readonly hosts: number;
  readonly ok: boolean;
  readonly error: string | null;
}

/** The gateway answered with an error status. */
export class AnswerError extends Error {
  readonly status: number;

  constructor(path: string, status: number) {
    super(`The gateway answered ${status} to ${path}`);
    this.status = status;
  }
}

/** Without an answer for this long, the gateway counts as unreachable. */
const ANSWER_MS = 10_000;

/** Paths are relative, so that the page works behind a proxy that adds a prefix. */
export async function fetchStatus(): Promise<Status> {
  return parsePrintable<Status>(await request('api/v1/status'));
}

export async function fetchClusters(): Promise<readonly Cluster[]> {
  return parsePrintable<readonly Cluster[]>(await request('api/v1/clusters'));
}

export async function fetchConnections(cluster: string, limit: number): Promise<readonly Connection[]> {
  const query = new URLSearchParams({ limit: String(limit), ...(cluster !== '' && { cluster }) });
  return parsePrintable<readonly Connection[]>(await request(`api/v1/connections?${query}`));
}

export async function endConnection(id: string): Promise<void> {
  await request(`api/v1/connections/${encodeURIComponent(id)}`, {
    method: 'DELETE',
    headers: { 'Content-Type': 'application/json' },
  });
}

/** Why the gateway is not ready, or undefined when it is. */
export async function fetchNotReady(): Promise<string | undefined> {
  const answer = await fetch('readyz', { cache: 'no-store', signal: AbortSignal.timeout(ANSWER_MS) });
  return answer.status === 503 ? printable((await answer.text()).trim()) : undefined;
}

async function request(path: string, init: RequestInit = {}): Promise<string> {
  const answer = await fetch(path, { ...init, cache: 'no-store', signal: AbortSignal.timeout(ANSWER_MS) });
  if (!answer.ok) throw new AnswerError(path, answer.status);
  return answer.text();
}
