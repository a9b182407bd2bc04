import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import * as net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import * as tls from 'node:tls';
import { certificateFor } from '../../../testbed/certificates.ts';
import { missingPrograms } from '../../../testbed/packages.ts';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { helloMessage, inRecords, serverNameExtension } from '../../wire/hello.samples.ts';
import { closeReasons } from '../close-reason.ts';
import type { EngineName } from '../io/open-reactor.ts';
import { REASONS_AT } from '../shared/shared-memory.ts';
import { startSampleGateway } from './gateway.samples.ts';
import type { Gateway } from './gateway.ts';

const hello = inRecords(helloMessage({ extensions: [serverNameExtension('api.a.lab')] }));

interface Given {
  readonly addresses?: readonly string[];
  readonly log?: 'all' | 'none';
}

async function given(engine: EngineName, { addresses = [], log = 'all' }: Given = {}) {
  const backend = net.createServer(socket => socket.on('error', () => {}).pipe(socket));
  backend.listen(0, '127.0.0.1');
  await once(backend, 'listening');
  const { port } = backend.address() as net.AddressInfo;
  const cluster = sampleCluster('a', {
    limits: { connections: 20, perSource: 20 },
    routes: [
      sampleRoute({
        hosts: ['api.a.lab'],
        backends: [`${addresses.length > 0 ? 'name.lab' : '127.0.0.1'}:${port}`],
      }),
    ],
  });
  const sample = await startSampleGateway(engine, {
    clusters: [cluster],
    settings: { perSource: 20, log },
    addresses,
  });
  const stop = async () => {
    await sample[Symbol.asyncDispose]();
    backend.close();
  };
  return { ...sample, port, [Symbol.asyncDispose]: stop };
}

/** Opens a tunnel that has echoed once. */
async function tunnel(gateway: Gateway): Promise<net.Socket> {
  const port = Number(gateway.listeners[0].address.split(':').at(-1));
  const socket = net.connect(port, '127.0.0.1').on('error', () => {});
  socket.write(hello);
  await once(socket, 'data');
  return socket;
}

function reasons(gateway: Gateway): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { get } of gateway.routes()) {
    for (const [index, reason] of closeReasons.entries()) {
      const count = get(REASONS_AT + index);
      if (count > 0) counts[reason] = (counts[reason] ?? 0) + count;
    }
  }
  return counts;
}

function untilClosed(socket: net.Socket): Promise<void> {
  return new Promise(resolve => socket.once('close', () => resolve()));
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5);
}

const openFiles = () => readdirSync('/proc/self/fd').length;

for (const engine of ['epoll', 'net'] as const) {
  test(`Gateway (${engine}) survives a worker's death: its connections end with shutdown, it restarts`, async () => {
    const before = openFiles();
    {
      await using it = await given(engine);
      const { gateway, records, deaths } = it;
      const sockets = await Promise.all(Array.from({ length: 16 }, () => tunnel(gateway)));
      let closed = 0;
      for (const socket of sockets) socket.once('close', () => closed++);
      gateway.killWorker(0);
      await until(() => deaths.length === 1 && closed > 0 && gateway.connections === 16 - closed);
      assert.deepEqual(deaths, ['worker-0']);
      assert.ok(closed < 16, 'Connections of the other worker go on');
      assert.deepEqual(reasons(gateway), { shutdown: closed });
      await until(() => records.length === closed);
      for (const socket of sockets.filter(candidate => !candidate.destroyed)) {
        socket.write('still here');
        assert.equal(String(await once(socket, 'data')), 'still here');
      }
      // The limits are released: 20 in all, for this source and this cluster.
      const more = await Promise.all(Array.from({ length: 4 + closed }, () => tunnel(gateway)));
      assert.equal(gateway.connections, 20);
      // A change still reaches all workers, including the new one.
      await gateway.apply(it.config);
      await until(() => gateway.generation === 2);
      for (const socket of [...sockets, ...more]) socket.destroy();
      await until(() => gateway.connections === 0);
      // Both workers accept again.
      for (let round = 0; round < 10; round++) (await tunnel(gateway)).destroy();
    }
    await until(() => openFiles() <= before);
  });
}

test('Gateway (epoll) serves every client whose handshake completed before the listener closed', async () => {
  await using it = await given('epoll');
  const { gateway } = it;
  const port = Number(gateway.listeners[0].address.split(':').at(-1));
  const visiting = new AbortController();
  let connected = 0;
  let served = 0;
  const visit = async () => {
    const socket = net.connect(port, '127.0.0.1').on('error', () => {});
    const first = (event: string) =>
      new Promise<boolean>(resolve => {
        socket.once(event, () => resolve(true)).once('close', () => resolve(false));
      });
    if (!(await first('connect'))) return;
    connected++;
    socket.write(hello);
    if (await first('data')) served++;
    socket.destroy();
  };
  const visitors = Array.from({ length: 10 }, async () => {
    while (!visiting.signal.aborted) await visit();
  });
  await until(() => served > 200);
  const drained = gateway.drain(5000);
  // Visitors keep coming while the listeners close.
  await sleep(250);
  visiting.abort();
  await Promise.all([drained, ...visitors]);
  assert.equal(served, connected);
});

test('Gateway tries every address of a backend given by name, of either family', async () => {
  for (const addresses of [
    ['::1', '127.0.0.1'],
    ['127.0.0.1', '::1'],
    ['127.0.0.2', '127.0.0.1'],
  ]) {
    await using it = await given('epoll', { addresses });
    (await tunnel(it.gateway)).destroy();
  }
});

test('Gateway restarts the health thread when it dies, and keeps the health states', async () => {
  await using it = await given('net');
  const { gateway, config, deaths, changes } = it;
  const closed = net.createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const text = `127.0.0.1:${(closed.address() as net.AddressInfo).port}`;
  closed.close();
  await once(closed, 'close');
  const route = sampleRoute({ hosts: ['api.a.lab'], backends: [`127.0.0.1:${it.port}`, text] });
  const health = { ...route.pool.health, everyMs: 20, rise: 1, fall: 2 };
  const routes = [{ ...route, pool: { ...route.pool, health } }];
  await gateway.apply({ ...config, clusters: [sampleCluster('a', { routes })] });
  await until(() => changes.length > 0);
  const change = { cluster: 'a', route: 'api', backend: text, up: false, why: 'connection refused' };
  assert.deepEqual(changes, [change]);
  const find = () => gateway.backends().find(({ backend }) => backend === text);
  const { since = 0, ...found } = gateway.healthOf(find()?.slot ?? 0);
  assert.deepEqual(found, { up: false, why: 'connection refused' });
  assert.ok(Math.abs(Date.now() - since) < 60_000, `${since}`);

  gateway.killWorker('health');
  await until(() => deaths.length > 0);
  assert.deepEqual(deaths, ['health']);
  const failed = find()?.checks?.failed ?? 0;
  await until(() => (find()?.checks?.failed ?? 0) > failed + 3);
  assert.deepEqual(gateway.health, { backends: 2, down: 1, stretch: 1 });
  assert.deepEqual(changes, [change], 'It was down before');

  await gateway.apply(config);
  assert.deepEqual(gateway.health, { backends: 1, down: 0, stretch: 1 });
});

test('Gateway checks a backend given by name at its current addresses', async () => {
  const addresses = ['127.0.0.2'];
  await using it = await given('net', { addresses });
  const { gateway, config, changes } = it;
  const [cluster] = config.clusters;
  const [route] = cluster.routes;
  const health = { ...route.pool.health, everyMs: 20, rise: 1, fall: 1 };
  await gateway.apply({
    ...config,
    clusters: [{ ...cluster, routes: [{ ...route, pool: { ...route.pool, health } }] }],
  });
  await until(() => changes.length === 1);
  assert.deepEqual([changes[0].backend, changes[0].up], [`name.lab:${it.port}`, false]);
  addresses[0] = '127.0.0.1';
  // A failed connection makes the resolver look the name up soon.
  const port = Number(gateway.listeners[0].address.split(':').at(-1));
  const client = net.connect(port, '127.0.0.1').on('error', () => {});
  client.write(hello);
  await until(() => changes.length === 2);
  client.destroy();
  assert.deepEqual([changes[1].up, changes[1].why], [true, 'connected']);
});

test('Gateway reports a backend as unknown until its name is looked up, and then checks it at once', async () => {
  const backend = net.createServer().listen(0, '127.0.0.1');
  await once(backend, 'listening');
  const { port } = backend.address() as net.AddressInfo;
  const answers = new Map(
    ['found.lab', 'missing.lab'].map(name => [name, Promise.withResolvers<string[]>()]),
  );
  const names = [...answers.keys()].map(name => `${name}:${port}`);
  const route = sampleRoute({ hosts: ['api.a.lab'], backends: names });
  // Only the first check falls within this test.
  const health = { ...route.pool.health, check: 'tcp' as const, everyMs: 3_600_000, rise: 2, fall: 2 };
  const clusters = [sampleCluster('a', { routes: [{ ...route, pool: { ...route.pool, health } }] })];
  await using it = await startSampleGateway('net', {
    clusters,
    lookUp: name => (answers.get(name) as PromiseWithResolvers<string[]>).promise,
  });
  const { gateway, changes } = it;
  const states = () => [...gateway.backends()].map(({ up, why }) => [up, why]);
  // By now the first checks would have run.
  await sleep(1000);
  assert.deepEqual(states(), [
    [null, undefined],
    [null, undefined],
  ]);
  answers.get('found.lab')?.resolve(['127.0.0.1']);
  answers.get('missing.lab')?.reject(new Error('ENOTFOUND'));
  await until(() => states().every(([up]) => up !== null));
  assert.deepEqual(states(), [
    [true, undefined],
    [false, 'name not found'],
  ]);
  assert.deepEqual(
    changes.map(({ backend, up, why }) => [backend, up, why]),
    [[names[1], false, 'name not found']],
  );
  backend.close();
});

for (const engine of ['epoll', 'net'] as const) {
  test(`Gateway.openConnections() (${engine}) lists open connections, and endConnection() ends one`, async () => {
    await using it = await given(engine);
    const { gateway, records } = it;
    const sockets = await Promise.all(Array.from({ length: 6 }, () => tunnel(gateway)));
    const open = await gateway.openConnections(100);
    assert.equal(open.length, 6);
    assert.deepEqual(new Set(open.map(({ host }) => host)), new Set(['api.a.lab']));
    assert.deepEqual(open[0].route, { cluster: 'a', route: 'api' });
    assert.equal((await gateway.openConnections(100, 'a')).length, 6);
    assert.equal((await gateway.openConnections(100, 'b')).length, 0);
    assert.equal((await gateway.openConnections(2)).length, 2);

    const { id, peer } = open[3];
    const own = sockets.find(socket => socket.localPort === peer.port);
    assert.ok(own !== undefined);
    const closed = untilClosed(own);
    assert.equal(await gateway.endConnection(id), true);
    await closed;
    assert.equal(await gateway.endConnection(id), false);
    assert.deepEqual(reasons(gateway), { revoked: 1 });
    await until(() => records.length === 1);
    assert.equal(closeReasons[records[0].reason], 'revoked');

    // The row is reused, but the old id does not name its next connection.
    const more = await Promise.all(Array.from({ length: 4 }, () => tunnel(gateway)));
    assert.equal(await gateway.endConnection(id), false);
    for (const socket of [...sockets, ...more].filter(candidate => candidate !== own)) {
      socket.write('still here');
      assert.equal(String(await once(socket, 'data')), 'still here');
    }
    for (const none of ['', 'x', '0-0-0', '9-1-1-1']) assert.equal(await gateway.endConnection(none), false);
  });

  test(`Gateway.endConnection() (${engine}) ignores an id from before a worker's death`, async () => {
    await using it = await given(engine);
    const { gateway, deaths } = it;
    const first = await tunnel(gateway);
    const [{ id }] = await gateway.openConnections(1);
    const worker = Number(id.split('-')[0]);
    const closed = untilClosed(first);
    gateway.killWorker(worker);
    await until(() => deaths.length === 1);
    await closed;
    assert.deepEqual(await gateway.openConnections(10), []);
    // Enough for the restarted worker to get some of them, in the same rows and generations.
    const sockets = await Promise.all(Array.from({ length: 16 }, () => tunnel(gateway)));
    assert.equal(await gateway.endConnection(id), false);
    assert.equal((await gateway.openConnections(100)).length, 16);
    for (const socket of sockets) socket.destroy();
  });

  test(`Gateway.watchRefusals() (${engine}) reports refusals that the log does not want`, async () => {
    await using it = await given(engine, { log: 'none' });
    const { gateway, records } = it;
    const port = Number(gateway.listeners[0].address.split(':').at(-1));
    const refused = async () => {
      const socket = net.connect(port, '127.0.0.1').on('error', () => {});
      socket.resume().end('\0nonsense');
      await untilClosed(socket);
    };
    await refused();
    (await tunnel(gateway)).destroy();
    await until(() => Object.keys(reasons(gateway)).length === 2);
    gateway.takeRecords();
    assert.equal(records.length, 0);
    gateway.watchRefusals(true);
    await refused();
    (await tunnel(gateway)).destroy();
    await until(() => records.length === 1);
    assert.equal(records[0].logged, false);
    assert.equal(closeReasons[records[0].reason], 'not-recognized');
    gateway.watchRefusals(false);
    await refused();
    await until(() => reasons(gateway)['not-recognized'] === 3);
    gateway.takeRecords();
    assert.equal(records.length, 1);
  });
}

test('Gateway.figuresOf() and traffic() add up what the workers counted', async t => {
  await using it = await given('net');
  const { gateway, config } = it;
  const socket = await tunnel(gateway);
  const [backend] = config.clusters[0].routes[0].pool.backends;
  assert.equal(gateway.figuresOf('a', 'api')?.connections, 1);
  assert.equal(gateway.figuresOf('a', 'api')?.backends.get(backend.text), 1);
  socket.end();
  await until(() => gateway.connections === 0);
  const { bytesIn, bytesOut, reasons, connections } = gateway.figuresOf('a', 'api') ?? assert.fail();
  assert.deepEqual([connections, bytesIn, bytesOut, reasons], [0, hello.length, hello.length, { done: 1 }]);
  assert.equal(gateway.figuresOf('a', 'konnectivity'), undefined);
  assert.equal(gateway.figuresOf('b', 'api'), undefined);
  const before = gateway.traffic();
  assert.deepEqual(before, { bytesIn, bytesOut, reasons });
  // A removed route stays in the sum, even once its slot is free for another.
  await gateway.apply({ ...config, clusters: [] });
  assert.deepEqual(gateway.traffic(), before);
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + 600_000);
  await gateway.apply({ ...config, clusters: [] });
  assert.equal([...gateway.routes()].length, 1);
  assert.deepEqual(gateway.traffic(), before);
});

for (const engine of ['epoll', 'net'] as const) {
  test(`Gateway (${engine}) survives the death of a thread with tunnels: its connections end with shutdown, it restarts`, {
    skip: missingPrograms('openssl'),
  }, async () => {
    await using it = await given(engine);
    const { gateway, config, deaths, records } = it;
    const { certFile, keyFile } = await certificateFor('tunnel.lab');
    const [cert, key] = [await readFile(certFile, 'latin1'), await readFile(keyFile, 'latin1')];
    await gateway.apply({
      ...config,
      tls: { kind: 'tunnel-end', hosts: ['tunnel.lab'], certificates: [{ cert, key }] },
    });
    const port = Number(gateway.listeners[0].address.split(':').at(-1));
    const enter = async () => {
      const socket = tls.connect({
        port,
        host: '127.0.0.1',
        servername: 'tunnel.lab',
        ALPNProtocols: ['causeway/1'],
        rejectUnauthorized: false,
      });
      socket.on('error', () => {});
      await once(socket, 'secureConnect');
      return socket;
    };
    const sockets = await Promise.all(Array.from({ length: 16 }, enter));
    const closed = () => sockets.filter(socket => socket.destroyed).length;
    for (const socket of sockets) socket.resume();
    const kind = engine === 'epoll' ? 'stream' : 'worker';
    gateway.killWorker(0, kind);
    await until(() => deaths.length === 1 && closed() > 0);
    assert.deepEqual(deaths, [`${kind}-0`]);
    await until(() => records.length > 0);
    for (const record of records) assert.equal(closeReasons[record.reason], 'shutdown');
    assert.ok(closed() < sockets.length, 'Connections of the other thread go on');
    // Both threads serve again.
    for (let round = 0; round < 6; round++) {
      const again = await enter();
      again.destroy();
    }
    for (const socket of sockets) socket.destroy();
    await until(() => gateway.connections === 0);
  });
}
