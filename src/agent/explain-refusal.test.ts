import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CloseReason, closeReasons } from '../gateway/close-reason.ts';
import type { NamedRecord } from '../gateway/control/gateway-port.ts';
import { explainRefusal, hintOf } from './explain-refusal.ts';

test("explainRefusal() shows the gateway's answer and what to check", () => {
  assert.match(
    explainRefusal(403, 'not-allowed: no'),
    /answered 403: not-allowed: no\. .*'agents'.*'allow'.*--key-file/,
  );
  assert.match(explainRefusal(404, ''), /answered 404\. It has no cluster with this --cluster-id/);
  assert.match(explainRefusal(400, ''), /Is that a Causeway/);
  assert.match(explainRefusal(0, ''), /closed the connection, or did not answer CONNECT with HTTP/);
  assert.equal(explainRefusal(503, 'over-limit'), 'the gateway answered 503: over-limit');
});

interface Ended {
  readonly reason?: CloseReason;
  readonly bytesIn?: number;
  readonly bytesOut?: number;
  readonly dialMs?: number;
  readonly clientEndedFirst?: boolean;
}

function record({ reason = 'done', bytesIn = 500, bytesOut = 0, dialMs = 1, ...more }: Ended): NamedRecord {
  return { reason: closeReasons.indexOf(reason), bytesIn, bytesOut, dialMs, ...more } as NamedRecord;
}

test('hintOf() explains an alert and a close without an answer', () => {
  for (const uplink of ['proxy', 'tunnel'] as const) {
    assert.match(hintOf(record({ bytesOut: 7 }), uplink) ?? '', /TLS alert\. .*--cluster-id/);
    assert.match(hintOf(record({}), uplink) ?? '', /closed without an answer\. .*'agents'/);
    assert.match(hintOf(record({ reason: 'backend-reset' }), uplink) ?? '', /without an answer/);
  }
});

test('hintOf() gives no hint when the gateway did not refuse, or has answered', () => {
  const cases: readonly Ended[] = [
    { bytesOut: 3000 },
    { bytesIn: 0 },
    { dialMs: -1, reason: 'connect-failed' },
    { reason: 'client-reset' },
    { clientEndedFirst: true },
    { reason: 'backend-reset', clientEndedFirst: true },
    { reason: 'shutdown' },
  ];
  for (const ended of cases) assert.equal(hintOf(record(ended), 'proxy'), undefined, JSON.stringify(ended));
  for (const uplink of ['connect', 'terminate'] as const)
    assert.equal(hintOf(record({ bytesOut: 7 }), uplink), undefined);
});
