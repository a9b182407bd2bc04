import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GuessLimit } from './guess-limit.ts';

const BURST = 10;
const EVERY_MS = 5000;

function given() {
  let now = 1000;
  const slowed: string[] = [];
  const limit = new GuessLimit(
    address => slowed.push(address),
    () => now,
  );
  let guesses = 0;
  return {
    limit,
    slowed,
    /** One that was never tried before. */
    guess: (address = '192.0.2.1') => limit.take(address, `guess ${guesses++}`),
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test('GuessLimit lets a source try a few passwords, then one at a time', () => {
  const { guess, pass, slowed } = given();
  for (let i = 0; i < BURST; i++) assert.equal(guess(), 0);
  assert.equal(guess(), EVERY_MS);
  pass(EVERY_MS - 1);
  assert.ok(guess() > 0);
  pass(1);
  assert.equal(guess(), 0);
  assert.ok(guess() > 0);
  assert.deepEqual(slowed, ['192.0.2.1'], 'reported once');
  pass(BURST * EVERY_MS);
  for (let i = 0; i < BURST; i++) assert.equal(guess(), 0);
  assert.ok(guess() > 0);
  assert.equal(slowed.length, 2);
});

test('GuessLimit does not slow other sources', () => {
  const { guess } = given();
  for (let i = 0; i < 2 * BURST; i++) guess('192.0.2.1');
  assert.ok(guess('192.0.2.1') > 0);
  assert.equal(guess('192.0.2.2'), 0);
  assert.equal(guess('2001:db8::1'), 0);
});

test('GuessLimit takes a mapped address for IPv4, and a /64 for one source', () => {
  const { guess } = given();
  for (let i = 0; i < BURST; i++) guess(i % 2 === 0 ? '192.0.2.1' : '::ffff:192.0.2.1');
  assert.ok(guess('192.0.2.1') > 0);
  for (let i = 0; i < BURST; i++) guess(`2001:db8:1:2::${i}`);
  assert.ok(guess('2001:db8:1:2:3::') > 0);
  assert.equal(guess('2001:db8:1:3::1'), 0);
  for (let i = 0; i < BURST; i++) guess(`fe80::${i}%eth0`);
  assert.ok(guess('fe80::99%eth1') > 0);
});

test('GuessLimit lets the same wrong credentials come again, and costs who is right nothing', () => {
  const { limit, guess } = given();
  const address = '192.0.2.1';
  for (let i = 0; i < 100; i++) assert.equal(limit.take(address, 'an old password'), 0);
  for (let i = 0; i < 100; i++) {
    assert.equal(limit.take(address, 'the right one'), 0);
    limit.right(address, 'the right one');
  }
  for (let i = 0; i < BURST - 1; i++) assert.equal(guess(), 0);
  assert.ok(guess() > 0);
  // Many at once with the right one: it was counted once, and is given back once.
  assert.ok(limit.take(address, 'the right one') > 0);
});

test('GuessLimit counts guesses that are under way', () => {
  const { guess } = given();
  const answers = Array.from({ length: 50 }, () => guess());
  assert.equal(answers.filter(wait => wait === 0).length, BURST);
});

test('GuessLimit keeps the sources that came last, and no more', () => {
  const { limit, guess } = given();
  for (let i = 0; i < 2 * BURST; i++) guess('192.0.2.1');
  for (let i = 0; i < 10_000; i++) {
    guess(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    if (i % 1000 === 0) assert.ok(guess('192.0.2.1') > 0, 'still slowed');
  }
  assert.ok(limit.size <= 4096);
});
