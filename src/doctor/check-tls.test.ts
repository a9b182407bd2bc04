import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { Report } from './check.ts';
import { checkTls } from './check-tls.ts';
import { sampleConfig, sampleNetwork, samplePlaces, sampleShaken } from './doctor.samples.ts';
import type { Shaken, ShakeRequest } from './network.ts';
import type { RunningGateway } from './running-gateway.ts';

const places = samplePlaces(sampleConfig('listen: [":6443"]'));
const HOSTS = Array.from({ length: 20 }, (_, i) => `api-${i}.test`);

async function judged(
  shake: (request: ShakeRequest) => Shaken,
  { hosts = ['api.test'], running }: { hosts?: readonly string[]; running?: RunningGateway } = {},
) {
  const cluster = sampleCluster('a', { id: 'a-1', routes: [sampleRoute({ hosts })] });
  const report = new Report('a');
  const network = sampleNetwork({ shake: async request => shake(request) });
  const world = { network, places, running, now: () => Date.UTC(2026, 0, 1) };
  const seen = await checkTls(cluster, world, new Set(places.all), { serviceIps: ['10.96.0.1'] }, report);
  return { codes: report.checks.map(({ code }) => code), texts: report.checks.map(({ text }) => text), seen };
}

const closed: Shaken = { ok: false, why: 'closed', text: 'closed' };
const alert = (number: number): Shaken => ({
  ok: false,
  why: 'alert',
  alert: number,
  text: `TLS alert ${number}`,
});

test('checkTls() names what an alert of the gateway means', async () => {
  for (const [number, code] of [
    [112, 'NotServed'],
    [49, 'NotAllowed'],
    [80, 'BackendDown'],
    [40, 'TlsFailed'],
  ] as const)
    assert.deepEqual((await judged(() => alert(number))).codes, [code], String(number));
});

test('checkTls() knows from a gateway without alerts that all backends are down', async () => {
  const backend = { address: '192.0.2.1:6443', up: false, why: 'refused' };
  const clusters = new Map([['a', { routes: [{ kind: 'api', backends: [backend] }] }]]);
  const running = { clusters } as unknown as RunningGateway;
  assert.deepEqual((await judged(() => closed, { running })).codes, ['BackendDown']);
  assert.deepEqual((await judged(() => closed)).codes, ['TlsFailed']);
});

test('checkTls() judges the certificate for every host, with few handshakes', async () => {
  let handshakes = 0;
  const shake = () => {
    handshakes++;
    return sampleShaken(...HOSTS.slice(0, -1), 'kubernetes.default.svc', '10.96.0.1');
  };
  const { codes, texts } = await judged(shake, { hosts: HOSTS });
  assert.deepEqual(codes, ['CertificateSanMissing']);
  assert.match(texts[0], /is not for 'api-19\.test', so/);
  assert.equal(handshakes, 8);
});

test('checkTls() wants the address of Service default/kubernetes in the certificate', async () => {
  const { codes, texts } = await judged(() => sampleShaken('api.test', 'kubernetes.default.svc'));
  assert.deepEqual(codes, ['CertificateSanMissing']);
  assert.match(texts[0], /is not for '10\.96\.0\.1', which pods/);
});
