import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { Clock } from './clock.ts';
import type { KubeApi, KubeFault } from './kube-api.ts';
import type { Lease } from './kube-object.ts';
import { type LeaderLease, openLeaderLease } from './leader-lease.ts';
import { leases } from './resources.ts';

const KEY = 'Lease/system/causeway';
const UNREACHABLE: KubeFault = { status: 0, reason: 'Unreachable', message: 'connect ECONNREFUSED' };
const identity: Lease = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: 'causeway', namespace: 'system' },
};

function given(...objects: readonly Lease[]) {
  const store = memoryStore(...objects);
  const clock = testClock();
  const changes: string[] = [];
  return {
    store,
    clock,
    changes,
    spec: () => store.peek<Lease>(KEY)?.spec ?? {},
    open(name: string, { api = store.client(), clock: own = clock as Clock } = {}) {
      const options = { namespace: 'system', name: 'causeway', identity: name, clock: own };
      const candidate: LeaderLease = openLeaderLease(api, options, () => {
        changes.push(`${name} ${candidate.isLeader() ? 'leads' : 'stops'} at ${clock.now()}`);
      });
      return candidate;
    },
    /** As kubectl does. */
    edit: (spec: object) => store.client('kubectl').merge(leases, 'system', 'causeway', { spec }),
    remove: () => store.client('kubectl').remove(leases, identity),
  };
}

/** A client whose server is away while `isAway()`; calls end as they would without an answer. */
function cutOff(api: KubeApi, isAway: () => boolean): KubeApi {
  const guard = <A extends readonly unknown[], R>(call: (...args: A) => R) =>
    ((...args: A) =>
      isAway() ? Promise.resolve({ ok: false, fault: UNREACHABLE }) : call(...args)) as typeof call;
  return { ...api, get: guard(api.get), create: guard(api.create), replace: guard(api.replace) } as KubeApi;
}

test('openLeaderLease() takes a Lease that nobody holds, and renews it every five seconds', async () => {
  const { store, clock, changes, spec, open } = given();
  await using a = open('a');
  assert.equal(a.isLeader(), false);
  await clock.advance(0);
  assert.deepEqual([a.isLeader(), a.holder, a.error, changes], [true, 'a', undefined, ['a leads at 0']]);
  assert.deepEqual(spec(), {
    holderIdentity: 'a',
    leaseDurationSeconds: 15,
    acquireTime: '2026-01-01T00:00:00.000000Z',
    renewTime: '2026-01-01T00:00:00.000000Z',
    leaseTransitions: 0,
  });
  await clock.advance(60_000);
  assert.equal(a.isLeader(), true);
  assert.deepEqual(store.writes, [`create ${KEY}`, ...Array(12).fill(`replace ${KEY}`)]);
  const { acquireTime, renewTime } = spec();
  assert.deepEqual([acquireTime, renewTime], ['2026-01-01T00:00:00.000000Z', '2026-01-01T00:01:00.000000Z']);
  assert.deepEqual(changes, ['a leads at 0']);
});

test('openLeaderLease() gives the Lease back when it is disposed, and another takes it at once', async () => {
  const { clock, spec, open } = given();
  const a = open('a');
  await using b = open('b');
  await clock.advance(20_000);
  assert.deepEqual([a.isLeader(), b.isLeader(), b.holder], [true, false, 'a']);
  const ended = a[Symbol.asyncDispose]();
  assert.equal(a.isLeader(), false);
  await ended;
  assert.equal(spec().holderIdentity, '');
  await clock.advance(5000);
  assert.deepEqual([b.isLeader(), spec().holderIdentity, spec().leaseTransitions], [true, 'b', 1]);
});

test("openLeaderLease() leaves another's Lease alone when it is disposed", async () => {
  const { store, clock, open } = given();
  await using a = open('a');
  await clock.advance(0);
  const b = open('b');
  await clock.advance(7000);
  const before = store.writes.length;
  await b[Symbol.asyncDispose]();
  assert.deepEqual([a.isLeader(), store.writes.length], [true, before]);
});

test('openLeaderLease() stops leading before its Lease runs out where the server is away, and another takes over', async () => {
  const { store, clock, changes, open } = given();
  let isAway = false;
  await using a = open('a', { api: cutOff(store.client(), () => isAway) });
  await clock.advance(0);
  await using b = open('b');
  await clock.advance(20_000);
  isAway = true;
  await clock.advance(9999);
  assert.deepEqual([a.isLeader(), b.isLeader()], [true, false]);
  assert.equal(a.error, 'Unreachable: connect ECONNREFUSED');
  await clock.advance(1);
  assert.deepEqual([a.isLeader(), b.isLeader()], [false, false]);
  await clock.advance(30_000);
  assert.deepEqual([a.isLeader(), b.isLeader()], [false, true]);
  isAway = false;
  await clock.advance(30_000);
  assert.deepEqual([a.isLeader(), b.isLeader(), a.error, a.holder], [false, true, undefined, 'b']);
  assert.deepEqual(
    changes.map(change => change.replace(/ at .*/, '')),
    ['a leads', 'a stops', 'b leads'],
  );
});

test('openLeaderLease() leads again at once after an outage in which nobody took the Lease', async () => {
  const { store, clock, spec, open } = given();
  await using a = open('a');
  await clock.advance(0);
  store.fault = () => UNREACHABLE;
  await clock.advance(60_000);
  assert.equal(a.isLeader(), false);
  store.fault = undefined;
  await clock.advance(5000);
  assert.deepEqual([a.isLeader(), spec().leaseTransitions], [true, 0]);
});

test('openLeaderLease() survives a call that hangs, and one that was done but never answered', async () => {
  const { store, clock, changes, open } = given();
  await using a = open('a');
  await clock.advance(1000);
  let hung = 0;
  const never = new Promise<void>(() => {});
  store.gate = async label => {
    if (label === 'replace leases answered' && hung++ < 1) await never;
  };
  await clock.advance(60_000);
  assert.ok(hung > 10);
  assert.deepEqual([a.isLeader(), a.error, changes], [true, undefined, ['a leads at 0']]);
});

test('openLeaderLease() leads on where every answer is slow', async () => {
  const { store, clock, changes, open } = given();
  await using a = open('a');
  await clock.advance(1000);
  store.gate = async label => {
    if (label.endsWith('answered')) await clock.wait(3500, new AbortController().signal);
  };
  await clock.advance(300_000);
  assert.deepEqual([a.isLeader(), changes], [true, ['a leads at 0']]);
  store.gate = async () => {};
  await clock.advance(10_000);
});

test('openLeaderLease() does not lead by an answer that arrives too late', async () => {
  const { store, clock, open } = given();
  let isLate = true;
  store.gate = async label => {
    if (label === 'create leases answered' && isLate) await clock.wait(2999, new AbortController().signal);
  };
  await using a = open('a');
  await clock.advance(2999);
  assert.equal(a.isLeader(), true);
  isLate = false;
  store.fault = () => UNREACHABLE;
  // From the start of the write, not from its answer.
  await clock.advance(7001);
  assert.equal(a.isLeader(), false);
});

test('openLeaderLease() stops leading where its machine was suspended: the time of day has moved on', async () => {
  const { store, clock, open } = given();
  let asleep = 0;
  const suspended: Clock = { ...clock, date: () => new Date(clock.date().getTime() + asleep) };
  await using a = open('a', { clock: suspended });
  await clock.advance(1000);
  asleep = 60_000;
  assert.equal(a.isLeader(), false);
  await clock.advance(5000);
  assert.deepEqual([a.isLeader(), store.peek<Lease>(KEY)?.spec?.holderIdentity], [true, 'a']);
});

test("openLeaderLease() judges by its own clock, whatever the times in another's Lease say", async () => {
  for (const year of ['1999', '2099']) {
    const { clock, open } = given({
      ...identity,
      spec: { holderIdentity: 'gone', leaseDurationSeconds: 15, renewTime: `${year}-01-01T00:00:00.000000Z` },
    });
    await using a = open('a');
    await clock.advance(14_999);
    assert.equal(a.isLeader(), false);
    await clock.advance(1000);
    assert.equal(a.isLeader(), true);
  }
});

test('openLeaderLease() passes the Lease on as usual where two clocks differ by minutes, and are corrected meanwhile', async () => {
  const MINUTE_MS = 60_000;
  for (const [ahead, behind] of [
    [10, -10],
    [-10, 10],
  ]) {
    const { store, clock, changes, open } = given();
    const offsets = { a: ahead * MINUTE_MS, b: behind * MINUTE_MS };
    const clockOf = (name: 'a' | 'b'): Clock => ({
      ...clock,
      date: () => new Date(clock.date().getTime() + offsets[name]),
    });
    let isAway = false;
    await using a = open('a', { api: cutOff(store.client(), () => isAway), clock: clockOf('a') });
    await clock.advance(0);
    await using b = open('b', { clock: clockOf('b') });
    await clock.advance(20_000);
    isAway = true;
    await clock.advance(30_000);
    assert.deepEqual([a.isLeader(), b.isLeader()], [false, true]);
    isAway = false;
    await clock.advance(1000);
    // A step of the wall clock may cost the leadership until the next renewal; it never makes a second leader.
    for (let minute = 0; minute < 3; minute++) {
      offsets.a = -offsets.a;
      offsets.b = -offsets.b;
      for (let i = 0; i < 60; i++) {
        await clock.advance(500);
        assert.equal(a.isLeader(), false, `at ${clock.now()}`);
      }
      assert.equal(b.isLeader(), true);
    }
    const leaders = changes.filter(change => change.includes('leads')).map(change => change[0]);
    assert.deepEqual([leaders[0], new Set(leaders.slice(1))], ['a', new Set(['b'])]);
  }
});

test('openLeaderLease() stops at its next renewal where somebody gives the Lease to another by hand', async () => {
  const { clock, changes, edit, open } = given();
  await using a = open('a');
  await clock.advance(1000);
  await using b = open('b');
  await clock.advance(1000);
  await edit({ holderIdentity: 'b' });
  for (let i = 0; i < 40; i++) {
    await clock.advance(500);
    assert.ok(!(a.isLeader() && b.isLeader()), `both at ${clock.now()}`);
  }
  assert.equal(changes[1], 'a stops at 5000');
  assert.equal([a, b].filter(each => each.isLeader()).length, 1);
});

test('openLeaderLease() leads on where somebody writes to the Lease without taking it', async () => {
  const { store, clock, changes, open } = given();
  await using a = open('a');
  await clock.advance(1000);
  const labels = { app: 'x' };
  await store.client('kubectl').merge(leases, 'system', 'causeway', { metadata: { labels } });
  await clock.advance(30_000);
  assert.deepEqual([a.isLeader(), changes], [true, ['a leads at 0']]);
  assert.deepEqual(store.peek<Lease>(KEY)?.metadata.labels, labels);
});

for (const [how, act] of [
  ['deleted', ({ remove }: ReturnType<typeof given>) => remove()],
  ['emptied', ({ edit }: ReturnType<typeof given>) => edit({ holderIdentity: '' })],
] as const) {
  test(`openLeaderLease() never has two leaders where the Lease is ${how} by hand`, async () => {
    const world = given();
    const { clock, open } = world;
    const all = [open('a')];
    await clock.advance(1000);
    all.push(open('b'), open('c'));
    await clock.advance(1000);
    for (let round = 0; round < 7; round++) {
      await act(world);
      for (let i = 0; i < 50; i++) {
        await clock.advance(777);
        assert.ok(all.filter(each => each.isLeader()).length <= 1, `at ${clock.now()}`);
      }
      assert.equal(all.filter(each => each.isLeader()).length, 1);
    }
    for (const each of all) await each[Symbol.asyncDispose]();
  });
}

test('openLeaderLease() says why the Lease cannot be written, and tries again', async () => {
  const { store, clock, open } = given();
  let calls = 0;
  store.fault = () => (calls++, { status: 403, reason: 'Forbidden', message: 'leases is forbidden' });
  await using a = open('a');
  await clock.advance(60_000);
  assert.ok(calls > 5 && calls < 20, `${calls} calls`);
  assert.deepEqual([a.isLeader(), a.error], [false, '403 Forbidden: leases is forbidden']);
  store.fault = undefined;
  await clock.advance(5000);
  assert.deepEqual([a.isLeader(), a.error], [true, undefined]);
});

test('openLeaderLease() leaves nothing running where it is disposed in the middle of a call', async () => {
  for (const stuck of ['get leases', 'create leases', 'create leases answered', 'replace leases']) {
    const { store, clock, spec, open } = given();
    const gate = Promise.withResolvers<void>();
    store.gate = async label => label === stuck && (await gate.promise);
    const a = open('a');
    await clock.advance(6000);
    let isDone = false;
    const ended = a[Symbol.asyncDispose]().then(() => (isDone = true));
    await clock.advance(10_000);
    assert.equal(isDone, true, stuck);
    await ended;
    let calls = 0;
    store.fault = () => void calls++;
    gate.resolve();
    await clock.advance(60_000);
    assert.equal(a.isLeader(), false);
    assert.ok(calls <= 4, `${stuck}: ${calls} calls`);
    assert.ok(stuck !== 'create leases answered' || spec().holderIdentity === '');
  }
});

type Step =
  | readonly ['wait', number]
  | readonly ['away' | 'back' | 'restart', number]
  | readonly ['delete' | 'annotate' | 'stall' | 'flow', number];

test('openLeaderLease() has at most one leader at any time, and one in the end', async () => {
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(fc.constant('wait' as const), fc.integer({ min: 1, max: 12_000 })) },
    {
      weight: 2,
      arbitrary: fc.tuple(fc.constantFrom('away' as const, 'back' as const, 'restart' as const), fc.nat(2)),
    },
    fc.tuple(
      fc.constantFrom('delete' as const, 'annotate' as const, 'stall' as const, 'flow' as const),
      fc.nat(6000),
    ),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 30 }),
      fc.infiniteStream(fc.nat(400)),
      async (steps, delays) => {
        const { store, clock, open, remove } = given();
        const away = [false, false, false];
        let [extra, processes] = [0, 0];
        store.gate = () => clock.wait((delays.next().value as number) + extra, new AbortController().signal);
        const start = (i: number) => {
          // Nobody's clock is right.
          const own: Clock = { ...clock, date: () => new Date(clock.date().getTime() + (i - 1) * 3_600_000) };
          return open(`${i}-${++processes}`, { api: cutOff(store.client(), () => away[i]), clock: own });
        };
        const all = [start(0), start(1), start(2)];
        const disposed: PromiseLike<unknown>[] = [];
        let deletedAt = Number.NEGATIVE_INFINITY;
        const check = () => {
          const leaders = all.filter(each => each.isLeader());
          assert.ok(leaders.length <= 1, `${leaders.map(each => each.holder)} at ${clock.now()}`);
          return leaders.length;
        };
        const advance = async (ms: number) => {
          for (let left = ms; left > 0; left -= 250) {
            await clock.advance(Math.min(left, 250));
            check();
          }
        };
        for (const [what, value] of steps) {
          if (what === 'wait') await advance(value);
          else if (what === 'away') away[value] = true;
          else if (what === 'back') away[value] = false;
          else if (what === 'restart') {
            // One that starts now has never seen the Lease.
            if (clock.now() - deletedAt < 30_000) continue;
            disposed.push(all[value][Symbol.asyncDispose]());
            all[value] = start(value);
          } else if (what === 'delete') {
            if (all.some(each => each.holder === undefined)) continue;
            deletedAt = clock.now();
            void remove();
          } else if (what === 'annotate') {
            const metadata = { annotations: { at: String(value) } };
            void store.client('kubectl').merge(leases, 'system', 'causeway', { metadata });
          } else extra = what === 'stall' ? value : 0;
          check();
        }
        away.fill(false);
        extra = 0;
        await advance(60_000);
        assert.equal(check(), 1);
        for (const each of all) disposed.push(each[Symbol.asyncDispose]());
        await clock.advance(60_000);
        await Promise.all(disposed);
      },
    ),
    { numRuns: 60 },
  );
});
