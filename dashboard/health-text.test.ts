import assert from 'node:assert/strict';
import { test } from 'node:test';
import { healthText, toneOf } from './health-text.ts';

const health = (backends: number, down: number, unknown: number, outage = false) => ({
  backends,
  down,
  unknown,
  outage,
});

test('healthText() counts an unchecked backend neither as up nor as down', () => {
  assert.equal(healthText(health(3, 0, 0)), '3 up');
  assert.equal(healthText(health(3, 0, 1)), '2 up, 1 unknown');
  assert.equal(healthText(health(3, 0, 3)), '3 unknown');
  assert.equal(healthText(health(3, 1, 2)), '1 of 3 down');
  assert.equal(healthText(health(1, 1, 0, true)), '1 down');
  assert.equal(healthText(health(0, 0, 0, true)), 'no backend');
  assert.equal(healthText(health(15, 1, 0), 'backend'), '1 of 15 backends down');
  assert.equal(healthText(health(1, 0, 1), 'backend'), '1 backend unknown');
});

test('toneOf() is red for an outage alone', () => {
  assert.equal(toneOf(health(3, 1, 0)), 'warning');
  assert.equal(toneOf(health(1, 1, 0, true)), 'down');
  assert.equal(toneOf(health(3, 0, 1)), 'unknown');
  assert.equal(toneOf(health(3, 0, 0)), 'up');
});
