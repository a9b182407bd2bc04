// What every importer gives: listeners, entries (a host or an id, and where it leads), settings, and findings. Each of
// haproxy/, nginx/ and traefik/ reads one format; group-clusters.ts and write-yaml.ts make causeway.yaml of it.

import type { Balance, HealthCheck, ProxyProtocol } from '../cluster/cluster.ts';

export interface Place {
  readonly file: string;
  /** Counted from 1, as in editors. */
  readonly line: number;
  readonly column: number;
}

export interface ImportFinding {
  readonly place: Place;
  /** `warning`: odd in the original, or different here. `not carried over`: causeway.yaml does not have it. */
  readonly kind: 'warning' | 'not carried over';
  /** What it is, and what to do. */
  readonly text: string;
  /** The hosts that reach a backend there and not here, if it is about hosts. Expects lower case; '' for none. */
  readonly differsFor?: (host: string) => boolean;
}

/** A text that is not a configuration at all. */
export interface Fault {
  readonly place: Place;
  readonly text: string;
}

export type Protocol = 'tls' | 'http';

export interface ImportedListener {
  /** As `on` in causeway.yaml. */
  readonly on: string;
  readonly port: number;
  /** Its name in the original. */
  readonly name: string;
  readonly balancers?: readonly string[];
  readonly agents?: readonly string[];
  readonly idTlv?: readonly number[];
  readonly place: Place;
}

export interface ImportedHealth {
  readonly check: HealthCheck;
  readonly everyMs?: number;
  readonly timeoutMs?: number;
  readonly rise?: number;
  readonly fall?: number;
  readonly path?: string;
  readonly serverName?: string;
}

export interface ImportedPool {
  /** Its name in the original. */
  readonly name: string;
  readonly backends: readonly string[];
  /** Absent: the default of the route's kind. */
  readonly balance?: Balance;
  /** Where the original sets it. */
  readonly balancePlace?: Place;
  readonly health?: ImportedHealth;
  readonly proxyProtocol?: ProxyProtocol;
  /** Answers every request with a redirect to https. */
  readonly redirect?: boolean;
  readonly place: Place;
}

/** One way in: these clients reach this pool. */
export interface Entry {
  /** As in causeway.yaml: exact, `*.x.y` or `*`. Absent for one that only an id selects. */
  readonly host?: string;
  readonly id?: string;
  readonly protocol: Protocol;
  /** Index in `listeners`. */
  readonly listener: number;
  readonly pool: ImportedPool;
  readonly allow?: readonly string[];
  /** The rule in the original. */
  readonly place: Place;
}

export interface ImportedTimeouts {
  readonly hello?: number;
  readonly connect?: number;
  readonly idle?: number;
  readonly halfClosed?: number;
}

export interface Imported {
  /** Names of the files read, for the head of the YAML. */
  readonly files: readonly string[];
  readonly listeners: readonly ImportedListener[];
  readonly entries: readonly Entry[];
  readonly timeouts: ImportedTimeouts;
  readonly retries?: number;
  readonly connections?: number;
  readonly findings: readonly ImportFinding[];
}

export type ImportResult =
  | { readonly ok: true; readonly imported: Imported }
  | { readonly ok: false; readonly faults: readonly Fault[] };

export interface SourceFile {
  readonly name: string;
  readonly text: string;
}

export interface Surroundings {
  /** The text of a file that the configuration names: a map, a list of patterns, an include; undefined if it cannot be read. */
  readFile(path: string): string | undefined;
  /** The files that a pattern with `*` names, in order. */
  listFiles(pattern: string): readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Sorts in the order of files and lines. */
export function byImportPlace(files: readonly string[]): (a: Place, b: Place) => number {
  return (a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.line - b.line || a.column - b.column;
}

export function placeText({ file, line, column }: Place): string {
  return `${file}:${line}:${column}`;
}
