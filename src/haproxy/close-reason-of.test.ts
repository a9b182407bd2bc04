import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as check, integer, property, string } from 'fast-check';
import { type CloseReason, closeReasons } from '../gateway/close-reason.ts';
import { closeReasonOf, refusalBackend } from './close-reason-of.ts';

const served = { backend: 'be_a_api', server: 's1' };
const unserved = { backend: 'be_a_api', server: '<NOSRV>' };

const CASES: readonly [state: string, reason: CloseReason, ended?: object][] = [
  ['--', 'done'],
  ['----', 'done'],
  ['LR--', 'done', { status: 308 }],
  ['LR--', 'unknown-host', { status: 421 }],
  ['CD', 'client-reset'],
  ['CL', 'client-reset'],
  ['CC', 'client-gone'],
  ['CQ', 'client-gone'],
  ['CH--', 'client-gone'],
  ['CR', 'no-data', { ...unserved, bytesIn: 0 }],
  ['CR', 'client-gone', { ...unserved, bytesIn: 5 }],
  ['SD', 'backend-reset'],
  ['SL', 'backend-reset'],
  ['SH--', 'backend-reset'],
  ['SC', 'connect-failed'],
  ['SC', 'no-backend', unserved],
  ['cD', 'half-closed-timeout'],
  ['sD', 'half-closed-timeout'],
  ['cD', 'idle-timeout', { hasIdleTimeout: true }],
  ['sD', 'idle-timeout', { hasIdleTimeout: true }],
  ['sH--', 'idle-timeout'],
  ['sC', 'connect-timeout'],
  ['sQ', 'over-limit'],
  ['cR--', 'hello-timeout', { ...unserved, status: 408 }],
  ['cR', 'no-data', { ...unserved, bytesIn: 0 }],
  ['PR', 'not-recognized', unserved],
  ['PR--', 'bad-request', { ...unserved, status: 400 }],
  ['PR--', 'not-allowed', { ...unserved, status: 403 }],
  ['PR--', 'over-limit', { ...unserved, status: 503 }],
  ['PC', 'over-limit'],
  ['PH--', 'backend-reset', { status: 502 }],
  ['RC', 'connect-failed'],
  ['KD', 'revoked'],
  ['KD', 'drained', { isDraining: true }],
  ['DD', 'backend-reset'],
  ['UD', 'backend-reset'],
  ['ID', 'fault'],
  ['', 'fault'],
];

for (const [state, reason, ended = {}] of CASES) {
  test(`closeReasonOf() is ${reason} for '${state}' ${JSON.stringify(ended)}`, () => {
    assert.equal(closeReasonOf({ state, ...served, ...ended }), reason);
  });
}

test('closeReasonOf() prefers what our rules noted', () => {
  assert.equal(closeReasonOf({ state: 'PR', ...served, reason: 'not-allowed' }), 'not-allowed');
  assert.equal(closeReasonOf({ state: 'PR', ...unserved, reason: '-' }), 'not-recognized');
  for (const reason of closeReasons) {
    const backend = refusalBackend(reason);
    assert.equal(closeReasonOf({ state: 'PR', backend, server: '<NOSRV>' }), reason);
  }
});

test('closeReasonOf() gives one of the closed set for any text', () => {
  check(
    property(string(), string(), string(), integer(), (state, backend, server, status) => {
      assert.ok(closeReasons.includes(closeReasonOf({ state, backend, server, status })));
    }),
  );
});
