import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleStatus } from '../test/browser/gateway.samples.ts';
import type { Status } from './api.ts';
import { bannersOf } from './banners.ts';

const inContact = { at: 0, lost: undefined };

test('bannersOf() is silent while all is well, and before anything is known', () => {
  assert.deepEqual(bannersOf(sampleStatus(), inContact, undefined), []);
  assert.deepEqual(bannersOf(undefined, { at: undefined, lost: undefined }, undefined), []);
});

test('bannersOf() says since when the gateway cannot be reached', () => {
  const at = new Date(2026, 0, 2, 9, 5, 7).getTime();
  const lost = 'Connection failed';
  const [{ tone, title, text }] = bannersOf(sampleStatus(), { at, lost }, undefined);
  assert.deepEqual([tone, title], ['error', 'The gateway cannot be reached since 09:05:07']);
  assert.match(text, /^Connection failed\. Retrying .* last state received/);
  assert.equal(
    bannersOf(undefined, { at: undefined, lost }, undefined)[0].title,
    'The gateway cannot be reached',
  );
});

test('bannersOf() shows the mistakes of a refused config file once, though its source has them too', () => {
  const error = 'causeway.yaml:1:1: a\ncauseway.yaml:2:1: b';
  const status = sampleStatus({
    config: { ok: false, error, restartNeeded: ['engine', 'workers'] },
    sources: [
      { name: 'file', up: false, synced: true, error },
      { name: 'kamaji', up: false, synced: true, error: 'connection refused' },
    ],
  });
  assert.deepEqual(
    bannersOf(status, inContact, undefined).map(({ tone, text }) => [tone, text]),
    [
      ['error', error],
      ['warning', 'Changed in the config file, but not in effect yet: engine, workers'],
      ['warning', 'connection refused'],
    ],
  );
});

test('bannersOf() shows what is found about objects that give no cluster, a few of them', () => {
  const finding = (severity: 'info' | 'error', i: number) =>
    ({
      severity,
      code: 'HostClaimed',
      text: `t${i}`,
      fix: 'f',
      source: 'services',
      object: 'Service a/b',
    }) as const;
  const bannersFor = (count: number) =>
    bannersOf(
      sampleStatus({
        findings: Array.from({ length: count }, (_, i) => finding(i === 0 ? 'info' : 'error', i)),
      }),
      inContact,
      undefined,
    );
  assert.deepEqual(bannersFor(1), []);
  assert.deepEqual(bannersFor(2), [
    {
      tone: 'warning',
      title: 'A source has something that is not served',
      text: 'Service a/b HostClaimed: t1. f',
    },
  ]);
  const [{ title, text }] = bannersFor(8);
  assert.equal(title, 'Sources have 7 things that are not served');
  assert.match(text, /\nService a\/b HostClaimed: t5\. f\nand 2 more: causeway status$/);
});

test('bannersOf() says that the gateway is draining, not ready, or checks too slowly', () => {
  const titles = (status: Status, notReady?: string) =>
    bannersOf(status, inContact, notReady).map(({ title }) => title);
  assert.deepEqual(titles(sampleStatus(), 'draining'), ['The gateway is draining']);
  assert.deepEqual(titles(sampleStatus(), 'the listeners are not open yet'), ['The gateway is not ready']);
  const stretched = sampleStatus({ health: { backends: 9000, down: 0, stretch: 3.6 } });
  assert.deepEqual(titles(stretched), ['Health checks run less often than configured']);
});
