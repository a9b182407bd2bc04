import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { lookupAt } from '../dns-client.ts';
import type { ServedNames } from '../served-zones.ts';
import { DnsServer } from './dns-server.ts';

const NAMES: ServedNames = {
  names: new Map([['api.lab.test', ['203.0.113.10']]]),
  addresses: ['203.0.113.10'],
  ttl: 60,
  serial: 1,
  zones: [],
  nameServers: [],
  isPartial: false,
};
const TIMEOUT_MS = 30_000;

function lookup(port: number) {
  return lookupAt([{ address: '127.0.0.1', port }], 500)('api.lab.test', 'A');
}

async function start(troubles: string[] = []): Promise<DnsServer> {
  return DnsServer.start({
    on: { host: '127.0.0.1', port: 0 },
    name: '127.0.0.1:0',
    names: NAMES,
    onTrouble: message => troubles.push(message),
  });
}

const portOf = ({ addresses }: DnsServer) => Number(addresses[0].split(':')[1]);

test('DnsServer starts its thread again on the same port after its death, with the last names', async () => {
  const troubles: string[] = [];
  await using server = await start(troubles);
  const port = portOf(server);
  assert.equal((await lookup(port)).status, 'answered');
  server.use({ ...NAMES, names: new Map([['api.lab.test', ['203.0.113.11']]]), serial: 2 });
  server.kill();
  const deadline = performance.now() + TIMEOUT_MS;
  let answer = await lookup(port);
  while (answer.addresses[0] !== '203.0.113.11' && performance.now() < deadline) {
    await delay(20);
    answer = await lookup(port);
  }
  assert.deepEqual(answer.addresses, ['203.0.113.11']);
  assert.ok(troubles.some(text => /ended; starting it again/.test(text)));
});

test('DnsServer counts by rcode, and closes its port at its end', async () => {
  let port: number;
  {
    await using server = await start();
    port = portOf(server);
    await lookup(port);
    const counted = server.queries;
    assert.deepEqual([...counted], [['NOERROR', 1]]);
  }
  assert.equal((await lookup(port)).status, 'failed');
});

test('DnsServer rejects with a ListenError if its port is taken', async () => {
  await using first = await start();
  const on = { host: '127.0.0.1', port: portOf(first) };
  const second = DnsServer.start({ on, name: 'x', names: NAMES, onTrouble: () => {} });
  await assert.rejects(second, /^ListenError: Cannot listen on 'x': address already in use/);
});
