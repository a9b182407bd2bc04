import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  JITTER,
  MAX_IN_FLIGHT,
  PLANNED_PER_SECOND,
  type Planned,
  Schedule,
  STARTS_PER_SECOND,
  TURN,
} from './schedule.ts';

interface Start {
  readonly slot: number;
  readonly at: number;
  readonly stretch: number;
}

/** A schedule with a simulated clock: each check takes `checkMs`, and time jumps from one event to the next. */
class Simulation {
  readonly schedule: Schedule;
  readonly starts: Start[] = [];
  now = 0;
  mostInFlight = 0;
  readonly #checkMs: (slot: number) => number;
  #ending: { readonly at: number; readonly planned: Planned }[] = [];

  constructor(seed: number, checkMs: (slot: number) => number = () => 1) {
    this.schedule = new Schedule(randomOf(seed));
    this.#checkMs = checkMs;
  }

  add(slots: readonly number[], everyMs: number | ((slot: number) => number)): void {
    const put = slots.map(slot => ({ slot, everyMs: typeof everyMs === 'number' ? everyMs : everyMs(slot) }));
    this.schedule.change(put, [], this.now);
  }

  run(untilMs: number): void {
    for (;;) {
      for (let planned = this.#take(); planned !== undefined; planned = this.#take()) {
        this.starts.push({ slot: planned.slot, at: this.now, stretch: this.schedule.stretch });
        this.#ending.push({ at: this.now + this.#checkMs(planned.slot), planned });
        this.mostInFlight = Math.max(this.mostInFlight, this.#ending.length);
      }
      const ends = this.#ending.reduce((first, { at }) => Math.min(first, at), Number.POSITIVE_INFINITY);
      const next = Math.min(ends, this.schedule.nextAt());
      assert.ok(next >= this.now, `Time went back from ${this.now} to ${next}`);
      if (next > untilMs) break;
      this.now = next;
      const due = this.#ending.filter(({ at }) => at <= next);
      this.#ending = this.#ending.filter(({ at }) => at > next);
      for (const { planned } of due) this.schedule.end(planned, next);
    }
    this.now = untilMs;
  }

  #take(): Planned | undefined {
    return this.schedule.take(this.now);
  }

  startsOf(slot: number): number[] {
    return this.starts.filter(start => start.slot === slot).map(({ at }) => at);
  }
}

/** Mulberry32, so that the tests are repeatable. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => from + index);
}

/** The most starts in any second, wherever it begins. */
function mostInASecond(starts: readonly Start[]): number {
  let most = 0;
  for (let first = 0, last = 0; last < starts.length; last++) {
    while (starts[last].at - starts[first].at >= 1000 - 1e-6) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

function intervals(times: readonly number[]): number[] {
  return times.slice(1).map((at, index) => at - times[index]);
}

const seeds = fc.integer();
/** Groups of backends with one interval each. */
const groupsFrom = (leastMs: number) =>
  fc.array(
    fc.record({ count: fc.integer({ min: 1, max: 1500 }), everyMs: fc.integer({ min: leastMs, max: 8000 }) }),
    { minLength: 1, maxLength: 4 },
  );

test('Schedule never starts more than 500 checks in any second', () => {
  fc.assert(
    fc.property(seeds, groupsFrom(20), fc.nat({ max: 3000 }), (seed, groups, pauseMs) => {
      const it = new Simulation(seed, slot => (slot % 7 === 0 ? 300 : 2));
      let slots = 0;
      for (const { count, everyMs } of groups) {
        it.add(range(slots, slots + count), everyMs);
        slots += count;
        it.run(it.now + pauseMs);
      }
      it.run(it.now + 4000);
      assert.ok(mostInASecond(it.starts) <= STARTS_PER_SECOND, `${mostInASecond(it.starts)} in a second`);
      assert.ok(it.mostInFlight <= MAX_IN_FLIGHT);
    }),
    { numRuns: 25 },
  );
});

test('Schedule checks every backend within stretch × every × 1.1, and never sooner than × 0.9', () => {
  fc.assert(
    // With shorter intervals, a tenth is less than the time that a crowd of others takes to clear.
    fc.property(seeds, groupsFrom(500), (seed, groups) => {
      const it = new Simulation(seed);
      let slots = 0;
      const every: number[] = [];
      for (const { count, everyMs } of groups) {
        for (let i = 0; i < count; i++) every[slots++] = everyMs;
      }
      it.add(range(0, slots), slot => every[slot]);
      const { stretch } = it.schedule;
      const longest = Math.max(...every) * stretch;
      it.run(Math.min(3 * longest, 20_000));
      const last = new Float64Array(slots).fill(-1);
      for (const { slot, at } of it.starts) {
        const intervalMs = every[slot] * stretch;
        const took = last[slot] < 0 ? at : at - last[slot];
        assert.ok(
          took <= intervalMs * (1 + JITTER) + 1e-6,
          `${took} of ${intervalMs} ms, stretch ${stretch}`,
        );
        if (last[slot] >= 0)
          assert.ok(took >= intervalMs * (1 - JITTER) - 1e-6, `${took} of ${intervalMs} ms`);
        last[slot] = at;
      }
      for (const [slot, at] of last.entries()) {
        if (it.now > every[slot] * stretch * (1 + JITTER)) assert.ok(at >= 0, `${slot} was never checked`);
      }
      assert.equal(it.schedule.stretch, stretch);
    }),
    { numRuns: 25 },
  );
});

test('Schedule draws each interval anew within ± 10 %, and uses nearly all of that range', () => {
  const it = new Simulation(1);
  it.add([1], 1000);
  it.run(1_000_000);
  const took = intervals(it.startsOf(1));
  assert.ok(took.length > 900);
  assert.ok(Math.min(...took) >= 900 && Math.min(...took) < 905, `${Math.min(...took)}`);
  assert.ok(Math.max(...took) <= 1100 - 1000 * TURN && Math.max(...took) > 1075, `${Math.max(...took)}`);
  const mean = took.reduce((sum, ms) => sum + ms, 0) / took.length;
  assert.ok(Math.abs(mean - 990) < 10, `mean ${mean}`);
});

test('Schedule keeps intervals while they fit, and reports the factor when it stretches them', () => {
  const stretchOf = (count: number, everyMs: number) => {
    const it = new Simulation(1);
    it.add(range(0, count), everyMs);
    return Number(it.schedule.stretch.toFixed(2));
  };
  assert.equal(stretchOf(0, 5000), 1);
  assert.equal(stretchOf(1, 5000), 1);
  assert.equal(stretchOf(PLANNED_PER_SECOND * 5, 5000), 1);
  assert.equal(stretchOf(PLANNED_PER_SECOND * 10, 5000), 2);
  assert.equal(stretchOf(PLANNED_PER_SECOND * 10, 50_000), 1);
  assert.equal(stretchOf(10_000, 5000), 4.44);
});

test('Schedule returns to the configured intervals when backends are removed', () => {
  const it = new Simulation(1);
  it.add(range(0, 10_000), 5000);
  it.run(30_000);
  it.schedule.change([], range(1, 10_000), it.now);
  assert.equal(it.schedule.stretch, 1);
  const before = it.starts.length;
  it.run(60_000);
  const since = it.starts.slice(before);
  assert.ok(since.every(({ slot }) => slot === 0));
  assert.ok(since.length >= 5 && since.length <= 7, `${since.length} in 30 s`);
});

/** The number of starts in each second: an even schedule has neither bursts nor pauses. */
function perSecond(starts: readonly Start[], fromMs: number, toMs: number): number[] {
  const counts = Array<number>(Math.round((toMs - fromMs) / 1000)).fill(0);
  for (const { at } of starts) if (at >= fromMs && at < toMs) counts[Math.floor((at - fromMs) / 1000)]++;
  return counts;
}

test('Schedule spreads 10,000 backends at the start over their interval', () => {
  const it = new Simulation(1);
  it.add(range(0, 10_000), 60_000);
  it.run(60_000);
  assert.equal(it.schedule.stretch, 1);
  assert.equal(new Set(it.starts.map(({ slot }) => slot)).size, 10_000);
  for (const count of perSecond(it.starts, 0, 54_000))
    assert.ok(Math.abs(count - 10_000 / 60) < 10, `${count} in a second`);
});

test('Schedule stays even with 10,000 backends whose interval is too short for all', () => {
  const it = new Simulation(1);
  it.add(range(0, 10_000), 5000);
  it.run(100_000);
  for (const count of perSecond(it.starts, 0, 100_000))
    assert.ok(count > 350 && count <= 500, `${count} in a second`);
});

test('Schedule does not delay known backends when an edit adds many', () => {
  const it = new Simulation(1);
  it.add(range(0, 2000), 5000);
  it.run(20_000);
  it.add(range(2000, 12_000), 5000);
  const { stretch } = it.schedule;
  assert.ok(stretch > 5.3 && stretch < 5.4, `${stretch}`);
  it.run(120_000);
  assert.ok(mostInASecond(it.starts) <= STARTS_PER_SECOND);
  const limit = 5000 * stretch * (1 + JITTER);
  for (const slot of range(0, 12_000).filter(slot => slot % 97 === 0)) {
    const times = it.startsOf(slot);
    const first = slot < 2000 ? times[0] : times[0] - 20_000;
    assert.ok(first <= limit, `${slot} was first checked after ${first} ms`);
    for (const ms of intervals(times)) assert.ok(ms <= limit, `${slot} after ${ms} of at most ${limit} ms`);
  }
});

test('Schedule checks a few new backends within half a second, for any interval', () => {
  const it = new Simulation(1);
  it.add(range(0, 10), 3_600_000);
  it.run(500);
  assert.equal(it.starts.length, 10);
  const gaps = intervals(it.starts.map(({ at }) => at));
  assert.ok(Math.max(...gaps) > 10, 'They are spread out');
});

test('Schedule starts over with a backend that is put again, and forgets one that is removed', () => {
  const it = new Simulation(1);
  it.add([1, 2], 60_000);
  it.run(1000);
  it.schedule.change([{ slot: 1, everyMs: 100 }], [2], it.now);
  it.run(61_000);
  assert.deepEqual(it.startsOf(2).length, 1);
  const since = it.startsOf(1).filter(at => at > 1000);
  assert.ok(since.length > 590 && since.length < 610, `${since.length}`);
  assert.ok(since[0] <= 1100);
});

test('Schedule never has two checks of one backend in flight; the next one waits for a slow one to end', () => {
  const it = new Simulation(1, () => 250);
  it.add([1], 100);
  it.run(10_000);
  for (const ms of intervals(it.startsOf(1))) assert.ok(Math.abs(ms - 250) < 1e-6, `${ms}`);
});

test('Schedule stretches when checks take so long that too many would be in flight', () => {
  const it = new Simulation(1, () => 2000);
  it.add(range(0, 2000), 5000);
  it.run(200_000);
  assert.ok(it.mostInFlight <= MAX_IN_FLIGHT);
  // 256 at a time, of 2 s each, are 128 a second.
  assert.ok(it.schedule.stretch > 400 / 128 && it.schedule.stretch < 4, `${it.schedule.stretch}`);
  const settled = it.starts.filter(({ at }) => at > 100_000);
  const limit = 5000 * it.schedule.stretch * 1.25;
  for (const slot of range(0, 2000).filter(slot => slot % 41 === 0)) {
    const times = settled.filter(start => start.slot === slot).map(({ at }) => at);
    assert.ok(times.length > 2);
    for (const ms of intervals(times)) assert.ok(ms <= limit, `${ms} of at most ${limit} ms`);
  }
});

test('Schedule returns to the configured intervals when checks are quick again', () => {
  let checkMs = 2000;
  const it = new Simulation(1, () => checkMs);
  it.add(range(0, 500), 5000);
  // 230 in flight, of 2 s each, are 115 a second, and 100 are configured; of 2.6 s each, they are 88.
  it.run(60_000);
  assert.equal(it.schedule.stretch, 1);
  checkMs = 2600;
  it.run(120_000);
  assert.ok(it.schedule.stretch > 1, `${it.schedule.stretch}`);
  checkMs = 1;
  it.run(180_000);
  assert.equal(it.schedule.stretch, 1);
});
