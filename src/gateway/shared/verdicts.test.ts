import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { closeReasons } from '../close-reason.ts';
import { type Verdict, Verdicts } from './verdicts.ts';

const HANDLE = 3;
const said: Verdict = { slot: 7, backendSlot: 9, dialMs: 1.5, reason: 2, isBroken: true, isEnding: true };

function given(): Verdicts {
  return new Verdicts(Verdicts.memory(8));
}

function read(verdicts: Verdicts, handle = HANDLE): Verdict {
  return {
    slot: verdicts.slot(handle),
    backendSlot: verdicts.backendSlot(handle),
    dialMs: verdicts.dialMs(handle),
    reason: verdicts.reason(handle),
    isBroken: verdicts.isBroken(handle),
    isEnding: verdicts.isEnding(handle),
  };
}

function assertNothing(verdicts: Verdicts, handle = HANDLE): void {
  const { dialMs, ...rest } = read(verdicts, handle);
  assert.ok(dialMs < 0);
  assert.deepEqual(rest, { slot: 0, backendSlot: 0, reason: -1, isBroken: false, isEnding: false });
}

test('Verdicts return what was recorded last, for that handle only', () => {
  const verdicts = given();
  verdicts.begin(HANDLE);
  assertNothing(verdicts);
  verdicts.say(HANDLE, verdicts.generation(HANDLE), said);
  assert.deepEqual(read(verdicts), said);
  for (const other of [HANDLE - 1, HANDLE + 1]) assertNothing(verdicts, other);
});

test('Verdicts keep every possible value', () => {
  const verdicts = given();
  fc.assert(
    fc.property(
      fc.record({
        slot: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
        backendSlot: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
        dialMs: fc.integer({ min: 0, max: 100_000 }).map(tenths => tenths / 10),
        reason: fc.integer({ min: -1, max: closeReasons.length - 1 }),
        isBroken: fc.boolean(),
        isEnding: fc.boolean(),
      }),
      verdict => {
        verdicts.begin(HANDLE);
        verdicts.say(HANDLE, verdicts.generation(HANDLE), verdict);
        assert.deepEqual(read(verdicts), { ...verdict });
      },
    ),
  );
});

test('Verdicts ignore a late verdict on a connection that has ended', () => {
  const verdicts = given();
  verdicts.begin(HANDLE);
  const old = verdicts.generation(HANDLE);
  verdicts.say(HANDLE, old, said);
  verdicts.end(HANDLE);
  assert.ok(!verdicts.isCurrent(HANDLE, old));
  assertNothing(verdicts);
  verdicts.begin(HANDLE);
  verdicts.say(HANDLE, old, said);
  assertNothing(verdicts);
  verdicts.say(HANDLE, verdicts.generation(HANDLE), { ...said, slot: 8 });
  assert.equal(verdicts.slot(HANDLE), 8);
});

test('Verdicts ignore a verdict that was being written while the handle passed to another connection', () => {
  const memory = Verdicts.memory(8);
  const verdicts = new Verdicts(memory);
  verdicts.begin(HANDLE);
  verdicts.say(HANDLE, verdicts.generation(HANDLE), said);
  verdicts.count(HANDLE, verdicts.generation(HANDLE), 1, 2);
  const words = new Int32Array(memory).slice();
  verdicts.begin(HANDLE);
  // The writer has checked the generation, and writes now.
  const size = words.length / 8;
  new Int32Array(memory).set(words.subarray(HANDLE * size + 1, (HANDLE + 1) * size), HANDLE * size + 1);
  assertNothing(verdicts);
  assert.deepEqual([verdicts.bytesIn(HANDLE), verdicts.bytesOut(HANDLE)], [0, 0]);
});

test('Verdicts.borrow() returns a lent descriptor once, and only for its own generation', () => {
  const verdicts = given();
  verdicts.begin(HANDLE);
  const generation = verdicts.generation(HANDLE);
  assert.equal(verdicts.borrow(HANDLE, generation), undefined);
  lend(verdicts, HANDLE, 42);
  assert.equal(verdicts.borrow(HANDLE - 1, generation), undefined);
  assert.equal(verdicts.borrow(HANDLE, generation - 1), undefined);
  assert.equal(verdicts.borrow(HANDLE, generation), 42);
  assert.equal(verdicts.borrow(HANDLE, generation), undefined);
  assert.deepEqual(takenBack(verdicts, HANDLE), []);
});

test('Verdicts.takeBack() returns a descriptor that was not borrowed, which then cannot be borrowed', () => {
  const verdicts = given();
  verdicts.begin(HANDLE);
  const old = verdicts.generation(HANDLE);
  lend(verdicts, HANDLE, 42);
  assert.deepEqual(takenBack(verdicts, HANDLE), [42]);
  assert.deepEqual(takenBack(verdicts, HANDLE), []);
  assert.equal(verdicts.borrow(HANDLE, old), undefined);
  // The same descriptor, lent for the next connection.
  verdicts.end(HANDLE);
  verdicts.begin(HANDLE);
  lend(verdicts, HANDLE, 42);
  assert.equal(verdicts.borrow(HANDLE, old), undefined);
  assert.equal(verdicts.borrow(HANDLE, verdicts.generation(HANDLE)), 42);
});

test('Verdicts.lend() holds every descriptor and every generation', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 2 ** 31 - 1 }),
      fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).filter(generation => generation !== 0),
      (descriptor, generation) => {
        const memory = Verdicts.memory(8);
        new Int32Array(memory)[0] = generation;
        const verdicts = new Verdicts(memory);
        lend(verdicts, 0, descriptor);
        assert.equal(verdicts.borrow(0, generation), descriptor);
      },
    ),
  );
});

test('Verdicts.count() keeps the last counts, of the current connection only', () => {
  const verdicts = given();
  const counted = () => [verdicts.bytesIn(HANDLE), verdicts.bytesOut(HANDLE)];
  verdicts.begin(HANDLE);
  const old = verdicts.generation(HANDLE);
  assert.deepEqual(counted(), [0, 0]);
  verdicts.count(HANDLE, old, 1, 2);
  verdicts.count(HANDLE, old, 3, 2 ** 40);
  assert.deepEqual(counted(), [3, 2 ** 40]);
  verdicts.end(HANDLE);
  verdicts.begin(HANDLE);
  assert.deepEqual(counted(), [0, 0]);
  verdicts.count(HANDLE, old, 5, 6);
  assert.deepEqual(counted(), [0, 0]);
});

test('Verdicts continue their generations when a worker restarts', () => {
  const memory = Verdicts.memory(8);
  const before = new Verdicts(memory);
  before.begin(HANDLE);
  const old = before.generation(HANDLE);
  const after = new Verdicts(memory);
  after.begin(HANDLE);
  after.say(HANDLE, old, said);
  assertNothing(after);
});

test('Verdicts.ending() distinguishes open, ended and broken, also when the handle is in use again', () => {
  const verdicts = given();
  verdicts.begin(HANDLE);
  const whole = verdicts.generation(HANDLE);
  assert.equal(verdicts.ending(HANDLE, whole), 'open');
  verdicts.end(HANDLE);
  assert.equal(verdicts.ending(HANDLE, whole), 'ended');
  verdicts.begin(HANDLE);
  assert.equal(verdicts.ending(HANDLE, whole), 'ended');

  const broken = verdicts.generation(HANDLE);
  verdicts.breakOff(HANDLE);
  assert.equal(verdicts.ending(HANDLE, broken), 'open');
  assert.equal(verdicts.reason(HANDLE), -1);
  verdicts.end(HANDLE);
  assert.equal(verdicts.ending(HANDLE, broken), 'broken');
  verdicts.begin(HANDLE);
  assert.equal(verdicts.ending(HANDLE, broken), 'broken');
});

test('Verdicts.ending() reports a connection as broken if its end is no longer known', () => {
  const verdicts = given();
  verdicts.begin(HANDLE);
  const old = verdicts.generation(HANDLE);
  verdicts.end(HANDLE);
  // The thread that asks may be several uses behind.
  for (let uses = 0; uses < 7; uses++) {
    verdicts.begin(HANDLE);
    verdicts.breakOff(HANDLE);
    verdicts.end(HANDLE);
    assert.equal(verdicts.ending(HANDLE, old), 'ended');
  }
  verdicts.begin(HANDLE);
  verdicts.end(HANDLE);
  assert.equal(verdicts.ending(HANDLE, old), 'broken');
});

function lend(verdicts: Verdicts, handle: number, descriptor: number): void {
  assert.ok(verdicts.lend(handle, { lend: () => descriptor }));
}

function takenBack(verdicts: Verdicts, handle: number): number[] {
  const closed: number[] = [];
  verdicts.takeBack(handle, descriptor => closed.push(descriptor));
  return closed;
}
