import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { Report } from './check.ts';
import { checkKonnectivity } from './check-konnectivity.ts';
import { sampleConfig, sampleNetwork, samplePlaces, sampleShaken } from './doctor.samples.ts';
import type { Shaken } from './network.ts';

const places = samplePlaces(sampleConfig('listen: [":6443"]'));

async function codes(shaken: Shaken, hosts: readonly string[] = ['k.test']): Promise<readonly string[]> {
  const route = sampleRoute({ kind: 'konnectivity', hosts });
  const cluster = sampleCluster('a', { routes: [route] });
  const report = new Report('a');
  const seen = [{ route, host: 'k.test', ...sampleShaken() }];
  const world = { network: sampleNetwork({ shake: async () => shaken }), places };
  await checkKonnectivity(cluster, world, new Set(places.all), seen, report);
  return report.checks.map(({ code }) => code);
}

test('checkKonnectivity() is content with HTTP/2, and with a server that asks for a certificate', async () => {
  assert.deepEqual(await codes({ ...sampleShaken(), answer: 'settings' }), ['Ok']);
  assert.deepEqual(await codes({ ...sampleShaken(), answer: 'certificate-wanted' }), ['Ok']);
});

test('checkKonnectivity() names a server that does not begin HTTP/2', async () => {
  for (const answer of ['silent', 'closed', 'other'] as const)
    assert.deepEqual(await codes({ ...sampleShaken(), answer }), ['KonnectivitySilent'], answer);
  assert.deepEqual(await codes({ ok: false, why: 'reset', text: 'reset' }), ['KonnectivitySilent']);
});

test('checkKonnectivity() names a server without HTTP/2, and a route without hosts', async () => {
  assert.deepEqual(await codes({ ...sampleShaken(), alpn: 'http/1.1' }), ['KonnectivityNoHttp2']);
  assert.deepEqual(await codes({ ok: false, why: 'alert', alert: 120, text: 'TLS alert 120' }), [
    'KonnectivityNoHttp2',
  ]);
  assert.deepEqual(await codes(sampleShaken(), []), ['KonnectivityHostMissing']);
});
