import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { TimingWheel } from './timing-wheel.ts';

const START = 1_000_003.7;
/** A clock that counts from 1970: its ticks exceed 32 bits, and its resolution is 0.0002 ms at best. */
const LATE_START = 1_794_721_694_612.7;
const SPAN = 16 * 1024;

test('advance() never fires early and at most one tick late', () => {
  const wheel = new TimingWheel(1, START);
  const deadline = START + 100.25;
  wheel.set(0, deadline);
  assert.deepEqual(fired(wheel, START + 100), []);
  assert.deepEqual(fired(wheel, deadline + 16), [0]);
  assert.deepEqual(fired(wheel, deadline + 1e6), []);
});

test('set() moves an existing deadline', () => {
  const wheel = new TimingWheel(2, START);
  for (const deadline of [START + 20, START + 5000, START + 10 * SPAN, START + 40]) wheel.set(1, deadline);
  assert.deepEqual(fired(wheel, START + 39), []);
  assert.deepEqual(fired(wheel, START + 56), [1]);
  assert.equal(wheel.nextAt(), Infinity);
});

test('set() with a past deadline fires at the next advance(), in the same tick too', () => {
  const wheel = new TimingWheel(1, START);
  wheel.set(0, START - 50);
  assert.ok(wheel.nextAt() <= START);
  assert.deepEqual(fired(wheel, START), [0]);
});

test('set() with Infinity or NaN clears the deadline and leaves the others alone', () => {
  const wheel = new TimingWheel(4, START);
  wheel.set(0, START + 10);
  wheel.set(0, Infinity);
  wheel.set(1, Number.NaN);
  wheel.set(2, START + 2 * SPAN);
  wheel.set(3, -Infinity);
  assert.deepEqual(fired(wheel, START), [3]);
  assert.deepEqual(fired(wheel, START + 2 * SPAN + 16), [2]);
  assert.equal(wheel.nextAt(), Infinity);
});

test('advance() does not report a handle that an earlier callback cleared or set again', () => {
  const wheel = new TimingWheel(4, START);
  for (const handle of [0, 1, 2, 3]) wheel.set(handle, START + 30);
  const order: number[] = [];
  wheel.advance(START + 50, handle => {
    order.push(handle);
    if (handle !== 0) return;
    wheel.clear(1);
    wheel.set(2, START + 30);
    wheel.set(0, START + 31);
  });
  assert.deepEqual(order, [0, 3]);
  assert.deepEqual(fired(wheel, START + 50), [2, 0]);
});

test('advance() over any distance costs one revolution', () => {
  const wheel = new TimingWheel(3, START);
  wheel.set(0, START + 1000);
  wheel.set(1, START + 1e9);
  wheel.set(2, START + 1e14);
  // One step per tick would take days.
  assert.deepEqual(fired(wheel, START + 1e13), [0, 1]);
  assert.deepEqual(fired(wheel, START + 1e14 + 16), [2]);
});

test('advance() with an earlier time changes nothing', () => {
  const wheel = new TimingWheel(1, START);
  wheel.set(0, START + 20);
  assert.deepEqual(fired(wheel, START - 1e9), []);
  assert.deepEqual(fired(wheel, START + 36), [0]);
});

test('advance() reports the remaining handles later when `expired` throws', () => {
  const wheel = new TimingWheel(2, START);
  wheel.set(0, START + 20);
  wheel.set(1, START + 20);
  assert.throws(() =>
    wheel.advance(START + 40, () => {
      throw new Error('from expired');
    }),
  );
  assert.ok(wheel.nextAt() <= START + 40);
  assert.deepEqual(fired(wheel, START + 40), [1]);
});

test('nextAt() wakes an idle gateway only for a deadline, however far off', () => {
  const wheel = new TimingWheel(1000, START);
  assert.equal(wheel.nextAt(), Infinity);
  for (let handle = 0; handle < 1000; handle++) wheel.set(handle, START + 3_600_000 + handle / 1000);
  let wakeUps = 0;
  let count = 0;
  for (let now = wheel.nextAt(); now < Infinity; now = wheel.nextAt()) {
    wakeUps++;
    wheel.advance(now, () => count++);
  }
  assert.equal(count, 1000);
  assert.ok(wakeUps <= 2, `${wakeUps} wake-ups`);
});

test('nextAt() passed to advance() fires every handle within a tick of its deadline', () => {
  fc.assert(
    fc.property(fc.array(delay, { minLength: 1, maxLength: 50, size: 'max' }), delays => {
      const wheel = new TimingWheel(delays.length, START);
      delays.forEach((after, handle) => wheel.set(handle, START + after));
      const seen = new Set<number>();
      let wakeUps = 0;
      for (let now = Math.max(START, wheel.nextAt()); now < Infinity; now = wheel.nextAt()) {
        wakeUps++;
        wheel.advance(now, handle => {
          seen.add(handle);
          assert.ok(now >= START + delays[handle] && now - (START + Math.max(0, delays[handle])) < 16.001);
        });
      }
      assert.equal(seen.size, delays.length);
      // Each wake-up fires something, or moves a far deadline into the wheel, whose wake-up then fires it.
      assert.ok(wakeUps <= 2 * delays.length, `${wakeUps} wake-ups for ${delays.length}`);
    }),
    { numRuns: 200 },
  );
});

const HANDLES = 6;
const delay = fc.oneof(
  fc.double({ min: -100, max: 200, noNaN: true }),
  fc.double({ min: SPAN - 100, max: SPAN + 100, noNaN: true }),
  fc.double({ min: 0, max: 5 * SPAN, noNaN: true }),
  fc.constantFrom(0, 16, SPAN - 16, SPAN, 1e8),
);
const handle = fc.nat({ max: HANDLES - 1 });
const change = fc.oneof(
  fc.record({ op: fc.constant('set' as const), handle, delay }),
  fc.record({ op: fc.constant('clear' as const), handle, delay: fc.constant(0) }),
);
const advance = fc.record({ op: fc.constant('advance' as const), handle: fc.constant(0), delay });

test('TimingWheel agrees with a map of deadlines under any changes, also from within advance()', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(START, LATE_START),
      fc.constantFrom(16, 1, 10),
      fc.array(fc.oneof(change, advance), { maxLength: 60, size: 'max' }),
      fc.array(fc.array(change, { maxLength: 3 }), { minLength: 1, maxLength: 8 }),
      (start, tickMs, operations, reactions) => {
        const wheel = new TimingWheel(HANDLES, start, tickMs);
        const model = new Map<number, number>();
        let now = start;
        let expirations = 0;
        const apply = ({
          op,
          handle,
          delay,
        }: {
          op: 'set' | 'clear';
          handle: number;
          delay: number;
        }): void => {
          if (op === 'clear') {
            wheel.clear(handle);
            model.delete(handle);
          } else {
            wheel.set(handle, now + delay);
            model.set(handle, now + delay);
          }
        };
        for (const operation of operations) {
          if (operation.op !== 'advance') {
            apply(operation);
          } else {
            now += Math.max(0, operation.delay);
            const setAnew = new Set<number>();
            wheel.advance(now, handle => {
              const deadline = model.get(handle);
              assert.ok(deadline !== undefined, `${handle} has no deadline`);
              assert.ok(deadline <= now, `${handle} fired early`);
              assert.ok(!setAnew.has(handle), `${handle} fired in the call that set it`);
              model.delete(handle);
              for (const reaction of reactions[expirations++ % reactions.length]) {
                apply(reaction);
                setAnew.add(reaction.handle);
              }
            });
            for (const [handle, deadline] of model) {
              if (!setAnew.has(handle)) assert.ok(deadline > now - tickMs - 0.001, `${handle} is late`);
            }
          }
          checkNextAt(wheel, model, now, tickMs);
        }
      },
    ),
    { numRuns: 1000 },
  );
});

function checkNextAt(wheel: TimingWheel, model: Map<number, number>, now: number, tickMs: number): void {
  const nextAt = wheel.nextAt();
  if (model.size === 0) {
    assert.equal(nextAt, Infinity);
    return;
  }
  const first = Math.min(...model.values());
  assert.ok(
    nextAt < Math.max(first, now) + tickMs + 0.001,
    `woken ${nextAt - first} ms after the first deadline`,
  );
}

function fired(wheel: TimingWheel, now: number): number[] {
  const handles: number[] = [];
  wheel.advance(now, handle => handles.push(handle));
  return handles;
}
