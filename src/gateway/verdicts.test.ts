import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reasonIndex } from './account.ts';
import { Verdicts } from './verdicts.ts';

const HANDLE = 3;

function said(reason: keyof typeof reasonIndex) {
  return { slot: 7, backendSlot: 9, dialMs: 1.25, reason: reasonIndex[reason], isBroken: false };
}

test('Verdicts: what is said of a connection does not land on the next with the same handle', () => {
  const verdicts = new Verdicts(Verdicts.memory(8));
  verdicts.begin(HANDLE);
  const first = verdicts.generation(HANDLE);
  verdicts.say(HANDLE, first, said('bad-request'));
  assert.equal(verdicts.reason(HANDLE), reasonIndex['bad-request']);
  assert.equal(verdicts.slot(HANDLE), 7);
  verdicts.end(HANDLE);
  verdicts.begin(HANDLE);
  assert.equal(verdicts.reason(HANDLE), -1);
  verdicts.say(HANDLE, first, said('bad-request'));
  assert.equal(verdicts.reason(HANDLE), -1);
});

test('Verdicts.standing() tells open, ended and broken off, also when the handle is in use again', () => {
  const verdicts = new Verdicts(Verdicts.memory(8));
  verdicts.begin(HANDLE);
  const whole = verdicts.generation(HANDLE);
  assert.equal(verdicts.standing(HANDLE, whole), 'open');
  verdicts.end(HANDLE);
  assert.equal(verdicts.standing(HANDLE, whole), 'ended');
  verdicts.begin(HANDLE);
  assert.equal(verdicts.standing(HANDLE, whole), 'ended');

  const broken = verdicts.generation(HANDLE);
  verdicts.breakOff(HANDLE);
  assert.equal(verdicts.standing(HANDLE, broken), 'open');
  assert.equal(verdicts.reason(HANDLE), -1);
  verdicts.end(HANDLE);
  assert.equal(verdicts.standing(HANDLE, broken), 'broken');
  verdicts.begin(HANDLE);
  assert.equal(verdicts.standing(HANDLE, broken), 'broken');
});

test('Verdicts.standing() takes one that is long gone for broken off', () => {
  const verdicts = new Verdicts(Verdicts.memory(8));
  verdicts.begin(HANDLE);
  const old = verdicts.generation(HANDLE);
  verdicts.end(HANDLE);
  verdicts.begin(HANDLE);
  verdicts.end(HANDLE);
  assert.equal(verdicts.standing(HANDLE, old), 'broken');
});
