import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleConfig, sampleNetwork } from './doctor.samples.ts';
import { findPlaces, type PlaceOptions } from './gateway-places.ts';

const refused = { ok: false, why: 'refused', text: 'refused' } as const;
const elsewhere = sampleNetwork({ dial: async () => refused });

async function places(text: string, options: Partial<PlaceOptions> = {}) {
  const config = sampleConfig(text);
  const network = sampleNetwork();
  return findPlaces({ config, network, running: undefined, named: async () => undefined, ...options });
}

const at = ({ all }: Awaited<ReturnType<typeof places>>) =>
  all.map(({ at: { host, port } }) => `${host} ${port}`);

test('findPlaces() takes the address in the file, or this machine where something answers', async () => {
  assert.deepEqual(at(await places('listen: ["192.0.2.1:6443", ":443", "[2001:db8::1]:80"]')), [
    '192.0.2.1 6443',
    '127.0.0.1 443',
    '2001:db8::1 80',
  ]);
});

test('findPlaces() asks DNS where nothing answers on this machine', async () => {
  const named = async () => '203.0.113.10';
  assert.deepEqual(at(await places('listen: [":6443"]', { network: elsewhere, named })), [
    '203.0.113.10 6443',
  ]);
  assert.deepEqual(at(await places('listen: [":6443"]', { network: elsewhere })), ['127.0.0.1 6443']);
});

test('findPlaces() takes --address for every listener, and its port where a balancer maps ports', async () => {
  const given = (port: number) => ({ given: { host: '203.0.113.10', port } });
  assert.deepEqual(at(await places('listen: [":6443", ":443"]', given(443))), [
    '203.0.113.10 6443',
    '203.0.113.10 443',
  ]);
  assert.deepEqual(at(await places('listen: [":6443"]', given(443))), ['203.0.113.10 443']);
});

test('findPlaces() learns the port from a running gateway, and knows none without', async () => {
  const running = { listeners: [{ on: '127.0.0.1:0', address: '127.0.0.1:40123' }] };
  assert.deepEqual(at(await places('listen: ["127.0.0.1:0"]', { running })), ['127.0.0.1 40123']);
  assert.deepEqual(at(await places('listen: ["127.0.0.1:0"]')), []);
});

test('placeOf() respects only', async () => {
  const { placeOf } = await places(
    'listen: [{ on: ":6443", only: [api] }, { on: ":443", only: [apps-https] }]',
  );
  assert.equal(placeOf({ kind: 'apps-https' })?.at.port, 443);
  assert.equal(placeOf({ kind: 'api' })?.at.port, 6443);
  assert.equal(placeOf({ kind: 'konnectivity' }), undefined);
});

test('findPlaces() says what names should resolve to, where something says so', async () => {
  const output = 'outputs: [{ dnsServer: { on: ":53", addresses: [203.0.113.10] } }]';
  const given = { given: { host: '203.0.113.11', port: 6443 } };
  assert.deepEqual((await places(`listen: [":6443"]\n${output}`)).expected, ['203.0.113.10']);
  assert.deepEqual((await places(`listen: [":6443"]\n${output}`, given)).expected, ['203.0.113.11']);
  assert.deepEqual((await places('listen: ["192.0.2.1:6443"]')).expected, ['192.0.2.1']);
  assert.equal((await places('listen: [":6443"]')).expected, undefined);
  const local = await places('listen: ["127.0.0.1:6443"]');
  assert.deepEqual([local.expected, local.isLocal], [undefined, true]);
  const loopback = { given: { host: '::1', port: 6443 } };
  assert.equal((await places('listen: [":6443"]', loopback)).isLocal, true);
});
