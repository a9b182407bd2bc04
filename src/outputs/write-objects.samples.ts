// A writer of objects in a test: an API server in memory, a clock that stands still, a lease that the test gives and takes.

import assert from 'node:assert/strict';
import { type MemoryStore, memoryStore } from '../../testbed/memory-kube-api.ts';
import { type TestClock, testClock } from '../../testbed/test-clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { plan } from '../plan/plan.ts';
import { ingresses, newIngress } from './ingress.ts';
import { ingressRouteTcps } from './ingress-route-tcp.ts';
import { objectName } from './object-name.ts';
import type { Output } from './output.ts';
import { tenant } from './outputs.samples.ts';
import { type WriteGuard, writeGuard } from './prune-guard.ts';
import { type ObjectWriter, openObjectWriter } from './write-objects.ts';

export const INSTANCE = 'causeway-system.causeway';
const known = [ingresses, ingressRouteTcps];
export const sampleOutput = newIngress('ingress', { flavor: 'haproxy', annotations: {} });

export interface Replica extends AsyncDisposable {
  readonly writer: ObjectWriter;
  /** How often `changed()` was called. */
  readonly changes: { count: number };
  isLeader: boolean;
  /** As the controller does: all clusters are of source kamaji, which is complete unless the guard says otherwise. */
  write(clusters: readonly Cluster[], guard?: Partial<WriteGuard>, output?: Output): void;
}

export interface Bed {
  readonly store: MemoryStore;
  readonly clock: TestClock;
  replica(options?: { api?: KubeApi; isLeader?: boolean }): Replica;
  /** Everything that happens within this time: enough for several passes by default. */
  settle(ms?: number): Promise<void>;
}

export function bed(...objects: readonly KubeObject[]): Bed {
  const [store, clock] = [memoryStore(...objects), testClock()];
  return {
    store,
    clock,
    replica: ({ api = store.client(), isLeader = true } = {}) => {
      const changes = { count: 0 };
      const lease = { isLeader: () => replica.isLeader };
      const options = { api, instance: INSTANCE, lease, known, clock, random: () => 1 };
      const writer = openObjectWriter(options, () => changes.count++);
      const replica: Replica = {
        writer,
        changes,
        isLeader,
        write(clusters, guard = {}, output = sampleOutput) {
          const observed = writeGuard([{ name: 'kamaji', clusters, complete: true }], [output]);
          writer.write(output.desired(plan(clusters)).objects, { ...observed, ...guard });
        },
        [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
      };
      return replica;
    },
    settle: (ms = 500) => clock.advance(ms),
  };
}

export function kamaji(name: string, more: Partial<Cluster> = {}): Cluster {
  return tenant('kamaji.clastix.io/v1alpha1', 'tenants', name, more);
}

/** As `store.peek()` wants it. */
export function ingressKey(name: string): string {
  return `Ingress/tenants/${objectName('ingress', `tenants.${name}`)}`;
}

export function peekIngress(store: MemoryStore, name: string): Ingress {
  const found = store.peek<Ingress>(ingressKey(name));
  assert.ok(found, `no Ingress for '${name}'`);
  return found;
}

export interface Ingress extends KubeObject {
  readonly spec: { readonly ingressClassName?: string; readonly rules: readonly { readonly host: string }[] };
}

export function codesOf({ writer }: Replica): string[] {
  return writer.findings().map(({ cluster, code }) => (cluster === undefined ? code : `${cluster} ${code}`));
}

/** Only those to outputs' objects, since a start: `apply a`. */
export function writesOf(store: MemoryStore, names: readonly string[]): string[] {
  const short = new Map(names.map(name => [ingressKey(name), name]));
  return store.writes.map(write => {
    const [method, key] = write.split(' ');
    return `${method} ${short.get(key) ?? key}`;
  });
}
