// The procedure of every scenario: all contenders run side by side, and each round measures each of them once, so
// that disturbances of the machine affect all equally.

import { setTimeout as delay } from 'node:timers/promises';
import { type LoadOptions, type LoadResult, runLoad } from '../load-generator.ts';
import type { Peer, PeerSetup, RunningPeer } from '../peers/peer.ts';
import { cpuSeconds } from '../process-usage.ts';
import type { TlsResult } from '../tls-load.ts';
import type { Run } from './scenario.ts';

/** Hosts in the scenarios that are not about their number. */
export const USUAL_HOSTS = 1000;
/** Concurrency of short connections. */
export const AT_ONCE = 64;
/** For the last connections to end before the proxy's CPU time is read. */
const SETTLE_MS = 100;
/** Warm-up of compilers, pools and caches. */
const WARM_UP_SECONDS = 0.7;

export interface Contender extends AsyncDisposable {
  /** Column of its figures. */
  readonly column: string;
  readonly running: RunningPeer;
}

export async function start(run: Run, peer: Peer, setup: Partial<PeerSetup> = {}): Promise<Contender> {
  const { ports, pinning, connections } = run.bed;
  const running = await peer.start({
    routes: { hosts: USUAL_HOSTS, added: [], ports },
    workers: pinning.workers,
    cores: pinning.proxy,
    connections,
    ...setup,
  });
  return { column: peer.id, running, [Symbol.asyncDispose]: () => running[Symbol.asyncDispose]() };
}

/** All peers of a run, stopped with the scope. */
export async function startAll(
  run: Run,
  setup: Partial<PeerSetup> = {},
): Promise<AsyncDisposable & { readonly all: readonly Contender[] }> {
  await using stack = new AsyncDisposableStack();
  const all: Contender[] = [];
  for (const peer of run.peers) all.push(stack.use(await start(run, peer, setup)));
  const owned = stack.move();
  return { all, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Each round starts with another contender. */
export async function interleave<T>(
  run: Run,
  contenders: readonly T[],
  once: (contender: T) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < run.rounds; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      run.signal.throwIfAborted();
      await once(contenders[(round + turn) % contenders.length]);
    }
  }
}

/** CPU time of a proxy for some work, from before the first connection until after the last. */
export async function withCpu<T>(
  running: RunningPeer,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly cpu: number }> {
  const pids = await running.processes();
  const before = await cpuSeconds(pids);
  const result = await work();
  await delay(SETTLE_MS);
  return { result, cpu: (await cpuSeconds(pids)) - before };
}

/** Runs a load, reports its errors, and measures the proxy's CPU time. */
export async function load(
  run: Run,
  { column, running }: Contender,
  options: LoadOptions,
): Promise<{ readonly result: LoadResult; readonly cpu: number }> {
  const measured = await withCpu(running, () =>
    runLoad(run.bed, running, { seconds: run.seconds, ...options }),
  );
  noteErrors(run, column, measured.result);
  run.busy(column, measured.result.busy);
  return measured;
}

export async function warmUp(
  run: Run,
  contenders: readonly Contender[],
  options: LoadOptions,
): Promise<void> {
  for (const { running } of contenders) {
    run.signal.throwIfAborted();
    await runLoad(run.bed, running, { ...options, seconds: Math.min(WARM_UP_SECONDS, run.seconds) });
  }
}

export function noteErrors(run: Run, column: string, { errors }: LoadResult): void {
  const counts = Object.entries(errors).filter(([, count]) => count > 0);
  if (counts.length > 0) run.fail(column, counts.map(([name, count]) => `${count} ${name}`).join(', '));
}

export function noteTlsErrors(run: Run, column: string, { failed, firstFailure }: TlsResult): void {
  if (failed > 0) run.fail(column, `${failed} failed handshakes, the first: ${firstFailure}`);
}
