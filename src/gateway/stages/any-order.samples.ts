// For tests: random scripts for all stages together. Clients, backends, time and the operator act at random, and events
// arrive in random order and in pieces of random sizes.
//
// A failure prints seed and path: CAUSEWAY_SEED=<seed> repeats the run, CAUSEWAY_PATH=<path> besides only its last
// script. CAUSEWAY_RUNS=<number> tries for longer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Cluster } from '../../cluster/cluster.ts';
import { EXHAUSTED, REFUSED, TIMED_OUT, UNREACHABLE } from '../io/reactor.ts';
import type { ScriptedPeer } from '../io/scripted-peer.samples.ts';
import type { ConnectAnswer } from '../io/scripted-reactor.samples.ts';
import { ScriptedPath } from './scripted-path.samples.ts';

/** Longer than all time-outs together. */
const FOREVER_MS = 600_000;
/** Clusters that come back get new slots, and only so many are checked. */
const MAX_TABLES = 8;
/** Few, so that limits and the shortage of descriptors are met often. */
const CAPACITY = 18;

export const sources = ['198.51.100.7', '198.51.100.8', '203.0.113.1'];

const answers: readonly ConnectAnswer[] = [
  'accept',
  'accept',
  'silence',
  REFUSED,
  TIMED_OUT,
  { atOnce: UNREACHABLE },
  { atOnce: EXHAUSTED },
];

/** A client with all bytes that it is going to send. */
export interface ScriptedClient {
  readonly peer: ScriptedPeer;
  readonly stream: Buffer;
}

/** What a script acts on. */
export interface World<Client extends ScriptedClient = ScriptedClient> {
  readonly it: ScriptedPath;
  readonly clients: Client[];
  /** Peers that did not read for a while. */
  readonly stalled: Set<ScriptedPeer>;
  /** The next random size or choice. */
  readonly next: () => number;
  readonly tables: readonly (readonly Cluster[])[];
  changes: number;
}

export type Action<W> = (world: W) => void;

/** An action that a failure shows as the values it was made of. */
export function actionOf<W extends World, Values>(
  name: string,
  values: fc.Arbitrary<Values>,
  act: (world: W, values: Values) => void,
): fc.Arbitrary<Action<W>> {
  return values.map(chosen =>
    Object.assign((world: W) => act(world, chosen), {
      [fc.toStringMethod]: () => `${name} ${fc.stringify(chosen)}`,
    }),
  );
}

export const nat = fc.nat({ max: 1000 });
/** Mostly a few bytes, sometimes more than a peer's window. */
export const size = fc.oneof(fc.nat({ max: 50 }), fc.nat({ max: 3000 }), fc.constant(70_000));

const clientSends = actionOf('client sends', fc.tuple(nat, size), ({ clients }, [which, count]) => {
  const client = clients[which % clients.length];
  client?.peer.sends(client.stream.subarray(client.peer.sent.length, client.peer.sent.length + count));
});

const peerActs = actionOf(
  'peer acts',
  fc.record({
    which: nat,
    isClient: fc.boolean(),
    count: size,
    what: fc.constantFrom(
      'fin',
      'resets',
      'closes',
      'stalls',
      'reads',
      'resumes',
      'resumes',
      'accepts',
      'refuses',
    ),
  }),
  ({ it, clients, stalled }, { which, isClient, count, what }) => {
    const peers = isClient ? clients.map(({ peer }) => peer) : it.io.dialled;
    const peer = peers[which % peers.length];
    if (what === 'stalls') stalled.add(peer);
    if (what === 'stalls' || what === 'reads') peer?.[what](count);
    else if (!isClient || (what !== 'accepts' && what !== 'refuses')) peer?.[what]();
  },
);

const delivers = actionOf('delivers', fc.integer({ min: 1, max: 8 }), ({ it, next }, steps) => {
  for (let step = 0; step < steps && it.io.step(next()); step++);
});

const comesToRest = actionOf('comes to rest', fc.constant(null), world => {
  deliverAll(world);
  world.it.assertAtRest();
});

const timePasses = actionOf(
  'time passes',
  fc.constantFrom(1, 20, 300, 3000, 10_000, 30_000, 100_000),
  ({ it }, ms) => it.io.passes(ms),
);

const tableChanges = actionOf('table changes', nat, (world, which) => {
  if (world.changes++ < MAX_TABLES) world.it.serves(world.tables[which % world.tables.length]);
});

const backendsChange = actionOf('backends change', nat, ({ it: { io } }, which) => {
  io.answer = () => answers[which % answers.length];
});

const othersAct = actionOf(
  'others act',
  fc.constantFrom('drains', 'cuts', 'exhausted', 'exhausted', 'relieved', 'relieved', 'relieved'),
  ({ it }, what) => {
    if (what === 'drains') it.drains();
    else if (what === 'cuts') it.cuts('drained');
    else it.io.isExhausted = what === 'exhausted';
  },
);

interface WeightedAction<W> {
  readonly arbitrary: fc.Arbitrary<Action<W>>;
  readonly weight: number;
  /** Clients or backends do it, so it may happen at any moment. */
  readonly isOfPeers?: boolean;
}

/** How a script ends: everyone closes, everyone resets, or nobody does anything more. */
type Finale = 'fin' | 'reset' | 'silence';

interface Script<W> {
  readonly actions: readonly Action<W>[];
  readonly finale: Finale;
  /** Random numbers for sizes and choices, used again and again. */
  readonly numbers: readonly number[];
  readonly isSplit: boolean;
}

const nothing = () => {};

/** Peers act while a stage is at work, just before one of its next calls of the reactor. */
function interrupts<W extends World>(acts: readonly fc.Arbitrary<Action<W>>[]): fc.Arbitrary<Action<W>> {
  return actionOf(
    'interrupts',
    fc.tuple(fc.nat({ max: 8 }), fc.array(fc.oneof(...acts), { minLength: 1, maxLength: 3 })),
    (world: W, [calls, all]) => {
      const { io } = world.it;
      let left = calls;
      io.meanwhile = () => {
        if (left-- > 0) return;
        io.meanwhile = nothing;
        for (const act of all) act(world);
      };
    },
  );
}

function scriptOf<W extends World>(own: readonly WeightedAction<W>[]): fc.Arbitrary<Script<W>> {
  const ofPeers = own.flatMap(({ arbitrary, isOfPeers }) => (isOfPeers ? [arbitrary] : []));
  const action: fc.Arbitrary<Action<W>> = fc.oneof(
    ...own,
    { arbitrary: clientSends, weight: 6 },
    { arbitrary: peerActs, weight: 8 },
    { arbitrary: interrupts<W>([clientSends, peerActs, ...ofPeers]), weight: 8 },
    { arbitrary: delivers, weight: 10 },
    { arbitrary: comesToRest, weight: 3 },
    { arbitrary: timePasses, weight: 2 },
    { arbitrary: tableChanges, weight: 1 },
    { arbitrary: backendsChange, weight: 2 },
    { arbitrary: othersAct, weight: 1 },
  );
  return fc.record({
    actions: fc.array(action, { minLength: 5, maxLength: 120, size: 'max' }),
    finale: fc.constantFrom<Finale>('fin', 'fin', 'reset', 'silence'),
    numbers: fc.array(fc.nat({ max: 400 }), { minLength: 1, maxLength: 40 }),
    isSplit: fc.boolean(),
  });
}

/** What a kind of script adds to the common actions, and what must hold in the end. */
interface Kind<W> {
  readonly actions: readonly WeightedAction<W>[];
  readonly newWorld: (common: Omit<World, 'clients' | 'tables'>) => W;
  /** Before everyone closes. */
  readonly settle?: (world: W) => void;
  readonly assertStreams: (world: W) => void;
}

export function inAnyOrder<W extends World>(name: string, kind: Kind<W>): void {
  for (const reports of ['state', 'changes'] as const)
    test(`${name} (${reports})`, () => {
      const { CAUSEWAY_RUNS: runs = '500', CAUSEWAY_SEED: seed, CAUSEWAY_PATH: path } = process.env;
      fc.assert(
        fc.property(scriptOf(kind.actions), ({ actions, finale, numbers, isSplit }) => {
          const world = kind.newWorld(newCommon(reports, numbers, isSplit));
          for (const act of actions) act(world);
          world.it.io.meanwhile = nothing;
          if (finale === 'fin') relieve(world);
          if (finale === 'fin') kind.settle?.(world);
          finish(world, finale);
          world.it.assertOver();
          kind.assertStreams(world);
        }),
        {
          numRuns: Number(runs),
          ...(seed !== undefined && { seed: Number(seed) }),
          ...(path !== undefined && { path }),
        },
      );
    });
}

function newCommon(reports: 'state' | 'changes', numbers: readonly number[], isSplit: boolean) {
  const it = new ScriptedPath({
    reports,
    capacity: CAPACITY,
    clusters: [],
    settings: { connections: 8, pending: 6, pendingPerSource: 4, perSource: 5 },
  });
  let turn = 0;
  const next = () => numbers[turn++ % numbers.length];
  // Now and then everything, so that many bytes do not take forever.
  const pieces = () => {
    let turn = 0;
    return () => (turn++ % 4 === 3 ? Infinity : next());
  };
  if (isSplit) {
    it.io.mostRead = pieces();
    it.io.mostWritten = pieces();
  }
  return { it, stalled: new Set<ScriptedPeer>(), next, changes: 0 };
}

export function deliverAll({ it, next }: World): void {
  for (let steps = 0; it.io.step(next()); steps++)
    assert.ok(steps < 100_000, 'the stages never come to rest');
}

/** Everybody reads, and every backend accepts. */
function relieve(world: World): void {
  const { it, clients } = world;
  it.io.isExhausted = false;
  it.io.answer = () => 'accept';
  for (const peer of it.io.dialled) peer.accepts();
  for (const peer of [...clients.map(({ peer }) => peer), ...it.io.dialled]) peer.resumes();
  deliverAll(world);
  it.assertAtRest();
}

function finish(world: World, finale: Finale): void {
  const { it, clients } = world;
  it.io.isExhausted = false;
  if (finale === 'reset') return it.endAll();
  if (finale === 'silence') return it.io.passes(FOREVER_MS);
  // Backends that are dialled later close later.
  for (let round = 0; round < 10; round++) {
    for (const peer of [...clients.map(({ peer }) => peer), ...it.io.dialled]) peer.fin();
    deliverAll(world);
    it.assertAtRest();
    it.io.passes(1000);
  }
  // The long deadlines of ended tunnels are not due yet.
  if (it.io.open.length === 0 && it.path.closing.size === 0) assert.equal(it.io.alarmAt, Infinity);
  it.io.passes(FOREVER_MS);
}

/** What the kernel has taken still reaches those who have not read. */
export function resumeAll({ it, clients }: World): void {
  for (const peer of [...clients.map(({ peer }) => peer), ...it.io.dialled]) peer.resumes();
}

export function clientOf<Client extends ScriptedClient>({ clients }: World<Client>, port: number): Client {
  return clients.find(({ peer }) => peer.name.endsWith(`:${port}`)) ?? assert.fail();
}

export function startsWith(all: Uint8Array, first: Uint8Array): boolean {
  return Buffer.compare(all.subarray(0, first.length), first) === 0;
}

const patterns = new Map<string, Buffer>();

/** Bytes that start with that name, without two places nearby that look alike. */
export function patternFrom(name: string): Buffer {
  let bytes = patterns.get(name);
  if (bytes === undefined) {
    bytes = Buffer.concat([
      Buffer.from(name),
      Buffer.alloc(
        1_000_000,
        Uint8Array.from({ length: 251 }, (_, i) => i),
      ),
    ]);
    patterns.set(name, bytes);
  }
  return bytes;
}
