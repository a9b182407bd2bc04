// What all runs of `npm run bench:control` share: creating objects, waiting, and the gateway's figures.

import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeApi } from '../../src/kube/kube-api.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { endpointSlices, type Resource } from '../../src/kube/resources.ts';
import type { Causeway, LogLine } from '../../testbed/start-causeway.ts';

const AT_ONCE = 8;
/** A change that takes longer is a defect, not a figure. */
const CHANGE_MS = 30_000;
/** Between two changes: what the one before has led to is written by then. */
const PAUSE_MS = 1500;

/** An EndpointSlice cannot have a loopback address. */
const ownAddress = Object.values(networkInterfaces())
  .flatMap(all => all ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
if (ownAddress === undefined) throw new Error('This machine has no address but loopback');

export const say = (text: string) => process.stdout.write(`${text}\n`);

export interface Port {
  readonly name: string;
  readonly port: number;
  readonly protocol: 'TCP';
}

export function tcpPorts(ports: Readonly<Record<string, number>>): readonly Port[] {
  return Object.entries(ports).map(([name, port]) => ({ name, port, protocol: 'TCP' }));
}

/** One endpoint. Connections to it are refused, so that health checks and looks at certificates cost little. */
export function sliceOf(namespace: string, service: string, ports: readonly Port[]): KubeObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: endpointSlices.kind,
    metadata: { name: service, namespace, labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [ownAddress], conditions: { ready: true } }],
    ports: ports.map(port => ({ ...port, port: 1 })),
  } as KubeObject;
}

export async function create(
  api: KubeApi,
  resource: Resource<KubeObject>,
  object: KubeObject,
): Promise<void> {
  const answer = await api.create(resource, object);
  if (!answer.ok) throw new Error(`Cannot create ${object.kind}: ${JSON.stringify(answer.fault)}`);
}

export async function inParallel(total: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < total) await work(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

export async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(10);
}

/**
 * Makes changes one after the other. Resolves to the milliseconds from each answer of the API server until the change is
 * served, sorted. From the log: asking the gateway would cost it more than the change.
 */
export async function changeTimes(
  gateway: Causeway,
  changes: number,
  change: (index: number) => Promise<unknown>,
): Promise<readonly number[]> {
  const times: number[] = [];
  for (let index = 0; index < changes; index++) {
    const before = Date.now();
    await change(index);
    const answered = Date.now();
    const applied = await gateway.line(line => line.msg === 'applied' && loggedAt(line) >= before, CHANGE_MS);
    times.push(loggedAt(applied) - answered);
    await sleep(PAUSE_MS);
  }
  return times.toSorted((a, b) => a - b);
}

export function sayChangeTimes(times: readonly number[]): void {
  const [median, worst] = [times[times.length >> 1], times.at(-1)].map(time => Math.round(time ?? 0));
  say(
    `a change is served ${median} ms after the API server's answer (median of ${times.length}; worst ${worst} ms)`,
  );
}

export function loggedAt({ time }: LogLine): number {
  return Date.parse(String(time));
}

/** Resident memory in MiB, now and at its peak. */
export function memoryMiB({ program }: Causeway): { readonly now: number; readonly peak: number } {
  const text = readFileSync(`/proc/${program.pid}/status`, 'latin1');
  const field = (name: string) => Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(text)?.[1]) / 1024);
  return { now: field('VmRSS'), peak: field('VmHWM') };
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
