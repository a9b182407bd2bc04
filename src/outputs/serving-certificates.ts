// The certificates of tenants' API servers, which agents with the uplink `terminate` present to their clients. Read from
// Secrets of the management cluster, again every few minutes, so that the agents' copy keeps in step.

import { createSecureContext } from 'node:tls';
import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import { type KubeApi, wordsOf } from '../kube/kube-api.ts';
import { type Problem, secrets } from '../kube/tenant-credentials.ts';
import { openPacedWork } from './paced-work.ts';
import type { KeyPair } from './tenant-agent-options.ts';

/** Operators renew certificates days before they expire. */
const REREAD_MS = 300_000;
/** While it cannot be read. */
const RETRY_MS = 30_000;
/** Between two reads: at most 50 a second. */
const PAUSE_MS = 20;
const IDLE_MS = 1000;
/** Most gateways have no tenants: they are not woken for nothing. update() wakes. */
const EMPTY_MS = 3_600_000;

export interface ServingCertificates extends AsyncDisposable {
  /** The clusters whose certificates are wanted, all of them. */
  update(clusters: readonly Cluster[]): void;
  /** Undefined until it has been read. A pair that cannot be read any more stays. */
  certificateOf(cluster: Cluster): KeyPair | undefined;
  readonly findings: readonly Finding[];
}

export interface ServingCertificatesOptions {
  /** The API server that has the Secrets of this cluster: that of its source. */
  readonly management: (cluster: Cluster) => KubeApi;
  /** Only the replica that writes needs them. */
  readonly isLeader: () => boolean;
  readonly clock?: Clock;
}

interface Entry {
  cluster: Cluster;
  readonly key: string;
  dueAt: number;
  version: string | undefined;
  pair: KeyPair | undefined;
  problem: Problem | undefined;
}

/** `changed()`: a certificate or a finding has changed. */
export function openServingCertificates(
  options: ServingCertificatesOptions,
  changed: () => void,
): ServingCertificates {
  const { management, isLeader, clock = systemClock } = options;
  const entries = new Map<string, Entry>();

  async function step(): Promise<number> {
    if (entries.size === 0) return EMPTY_MS;
    if (!isLeader()) return IDLE_MS;
    const now = clock.now();
    const due = entries.values().find(({ dueAt }) => dueAt <= now);
    if (due === undefined) return IDLE_MS;
    due.dueAt = now + REREAD_MS;
    if (await read(management(due.cluster), due)) changed();
    if (due.problem !== undefined) due.dueAt = clock.now() + RETRY_MS;
    return PAUSE_MS;
  }
  const work = openPacedWork(clock, step);

  return {
    update(clusters) {
      const names = new Set(clusters.map(({ name }) => name));
      for (const name of entries.keys()) if (!names.has(name)) entries.delete(name);
      for (const cluster of clusters) {
        const key = keyOf(cluster);
        const known = entries.get(cluster.name);
        if (known?.key === key) known.cluster = cluster;
        else entries.set(cluster.name, newEntry(cluster, key));
      }
      work.wake();
    },
    certificateOf: ({ name }) => entries.get(name)?.pair,
    get findings() {
      return entries
        .values()
        .flatMap(({ cluster: { name, origin }, problem }): Finding[] =>
          problem === undefined ? [] : [{ cluster: name, origin, severity: 'error', ...problem }],
        )
        .toArray();
    },
    async [Symbol.asyncDispose]() {
      entries.clear();
      await work[Symbol.asyncDispose]();
    },
  };
}

function newEntry(cluster: Cluster, key: string): Entry {
  return { cluster, key, dueAt: 0, version: undefined, pair: undefined, problem: undefined };
}

function keyOf({ origin, controlPlane }: Cluster): string {
  return JSON.stringify([origin.source, origin.object?.uid, controlPlane?.servingCertificate]);
}

/** Whether something has changed. */
async function read(api: KubeApi, entry: Entry): Promise<boolean> {
  const place = entry.cluster.controlPlane?.servingCertificate;
  if (place === undefined) {
    return report(entry, 'It is not known which Secret has the certificate of the API server', USE_ANOTHER);
  }
  const { namespace, secret, certKey, keyKey } = place;
  const name = `Secret ${namespace}/${secret}`;
  const found = await api.get(secrets, namespace, secret);
  if (!found.ok) {
    const { fault } = found;
    if (fault.status === 404) return report(entry, `${name} does not exist`, WAIT);
    return report(entry, `${name} cannot be read: ${wordsOf(fault)}`, RIGHTS);
  }
  const { data = {}, metadata } = found.value;
  if (entry.pair !== undefined && entry.version === metadata.resourceVersion) return report(entry);
  const [cert, key] = [certKey, keyKey].map(each => Buffer.from(data[each] ?? '', 'base64').toString());
  if (cert === '' || key === '') return report(entry, `${name} lacks the key ${certKey} or ${keyKey}`, WAIT);
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    const text = `${name} has no usable certificate and key: ${(error as Error).message}`;
    return report(entry, text, WAIT);
  }
  const isSame = entry.pair?.cert === cert && entry.pair.key === key;
  entry.version = metadata.resourceVersion;
  if (!isSame) entry.pair = { cert, key };
  return report(entry) || !isSame;
}

function report(entry: Entry, text?: string, fix = ''): boolean {
  const before = entry.problem?.text;
  entry.problem = text === undefined ? undefined : { code: 'SecretMissing', text, fix };
  return before !== text;
}

const WAIT =
  'Its operator writes the Secret once the control plane is ready: look at the status of the object';
const RIGHTS = 'Apply the output of causeway render rbac';
const USE_ANOTHER = 'Use another uplink than terminate';
