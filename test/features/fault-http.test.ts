// One fault, one connection, in what serves HTTP and TLS: an exception in any callback that serves a request, an
// HTTP/2 stream or a tunnel resets that connection with the reason `fault`. The thread and other connections continue.

import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import { after, describe, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { certificateFor } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { streamThread } from './engine.ts';
import { DEADLY_PING, FAULTY_STATUS, faulty } from './fault-marks.ts';
import { Backend, lineOf, until } from './given.ts';
import { H2Client } from './h2-client.ts';
import { assertAlive, HttpBackend, HttpClient, request, untilIdle } from './http-given.ts';

const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());

const backend = stack.use(
  await HttpBackend.start('backend', {
    on: {
      '/data': (_, response) => {
        response.write('first ');
        setTimeout(() => response.end('@@data@@ and more'), 20);
      },
      '/head': (_, response) => response.writeHead(200, { 'X-Fault': 'head' }).end('headed'),
      '/count': (_, response) => response.writeHead(FAULTY_STATUS).end('not counted'),
      '/hold': () => {},
    },
    upgrade: (_, socket) => {
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nX-Fault: splice\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n',
      );
      socket.pipe(socket);
    },
  }),
);
const api = stack.use(await Backend.start({ name: 'api' }));
const dir = stack.use(await tempDir());
await writeFile(dir.file('secret'), 'a secret for tests, of at least 32 bytes');
const hasTls = missingPrograms('openssl') === undefined || missingPrograms('openssl') === false;
const { certFile, keyFile } = hasTls ? await certificateFor('ok.tunnel.test') : { certFile: '', keyFile: '' };

/** One connection per cluster: if a fault leaked its count, the next connection would be refused. */
const names = ['arrived', 'ask', 'look', 'plain'];
const gateway = stack.use(
  await startCauseway({
    env: faulty,
    config: `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
workers: 1
identity: { secretFile: ${dir.file('secret')} }
${hasTls ? `tunnel: { hosts: ["*.tunnel.test"], certificates: [{ certFile: ${certFile}, keyFile: ${keyFile} }] }` : ''}
clusters:
${names
  .map(
    name =>
      `  - { name: ${name}, limits: { connections: 1, perSource: 1 }, apps: { hosts: [${name}.test, fault-${name}.test], http: ["${backend.text}"] } }`,
  )
  .join('\n')}
  - { name: neighbour, apps: { hosts: [neighbour.test], http: ["${backend.text}"] }, api: { backends: ["${api.text}"] } }
`,
  }),
);

const neighbour = await HttpClient.connect(gateway.port);
stack.defer(() => neighbour[Symbol.dispose]());
await ping();
await Promise.all([gateway.status(), gateway.metric('causeway_clusters')]);
const files = await openFiles(gateway);

async function ping(): Promise<void> {
  assert.equal((await neighbour.echo('neighbour.test', '/ping')).url, '/ping');
}

async function openFiles({ program }: Causeway): Promise<number> {
  return (await readdir(`/proc/${program.pid}/fd`)).length;
}

function faultLines(): LogLine[] {
  return gateway.lines().filter(({ msg }) => msg === 'fault');
}

function counted(reason: string): Promise<number> {
  return gateway.metric('causeway_connections_total', { reason });
}

/** Asserts that `strike` causes one fault, with its log line and close reason, and that nothing is left of it. */
async function assertContained(
  thread: string,
  strike: () => Promise<{ readonly address: string; readonly since: string } | undefined>,
  reasons = 1,
): Promise<LogLine | undefined> {
  const before = { lines: faultLines().length, count: await counted('fault') };
  const struck = await strike();
  await until('a line for the fault', () => faultLines().length > before.lines);
  const line = struck && (await lineOf(gateway, struck));
  const [fault, ...more] = faultLines().slice(before.lines);
  assert.deepEqual(more, []);
  assert.deepEqual([fault.level, fault.thread, fault.suppressed], ['error', thread, 0]);
  if (struck !== undefined) assert.equal(fault.client, struck.address);
  assert.match((fault.err as { stack: string }).stack, /^Error: injected: .*src\/gateway\//s);
  await until('it to be counted', async () => (await counted('fault')) === before.count + reasons);
  assertAlive(gateway);
  await ping();
  await until('the neighbour alone to be open', async () => {
    const { counts } = (await gateway.status()) as { counts: { connections: number } };
    return counts.connections === 1 && (await gateway.metric('causeway_connections_active')) === 0;
  });
  return line;
}

/** The client's bytes, and the part of a response that it receives before the reset. */
function assertReset(said: string, receives = ''): () => Promise<void> {
  return async () => {
    const line = await assertContained('worker-0', async () => {
      using client = await HttpClient.connect(gateway.port);
      client.send(said);
      assert.equal(await client.ended(), 'RST');
      assert.ok(client.rest().toString('latin1').includes(receives), client.rest().toString('latin1'));
      return { address: client.address, since: client.since };
    });
    assert.deepEqual([line?.reason, line?.protocol], ['fault', 'http']);
    // The count was released.
    using next = await HttpClient.connect(gateway.port);
    assert.equal((await next.get('plain.test')).status, 200);
  };
}

const get = (host: string, path: string, ...lines: readonly string[]) =>
  request(`GET ${path} HTTP/1.1`, `Host: ${host}`, ...lines);
const post = (path: string) =>
  `${request(`POST ${path} HTTP/1.1`, 'Host: plain.test', 'Content-Length: 4')}body`;

describe('a fault in a worker that serves HTTP', { concurrency: false }, () => {
  test('when a request arrives', assertReset(get('fault-arrived.test', '/')));
  test('when a later request arrives', async () => {
    using client = await HttpClient.connect(gateway.port);
    assert.equal((await client.get('plain.test')).status, 200);
    await assertContained('worker-0', async () => {
      client.ask('fault-arrived.test');
      assert.equal(await client.ended(), 'RST');
      return client;
    });
  });
  test('when the backend is connected', assertReset(get('fault-ask.test', '/')));
  test('when the head of a response arrives', assertReset(get('plain.test', '/head')));
  test('when bytes of a response arrive', assertReset(get('plain.test', '/data'), 'first '));
  test('when a request with a body is answered', assertReset(post('/head')));
  test(
    'when the body of a request ends',
    assertReset(
      `${request('POST / HTTP/1.1', 'Host: plain.test', 'Transfer-Encoding: chunked')}0\r\nX-Fault-Trailer: 1\r\n\r\n`,
    ),
  );
  test(
    'when protocols are switched',
    assertReset(get('plain.test', '/switch', 'Connection: Upgrade', 'Upgrade: echo')),
  );
  test('when a timer fires', assertReset(get('fault-look.test', '/hold')));

  test('when a response is counted, after the client has all of it', async () => {
    const line = await assertContained('worker-0', async () => {
      using client = await HttpClient.connect(gateway.port);
      client.ask('plain.test', '/count');
      assert.equal((await client.answer()).status, FAULTY_STATUS);
      await client.ended();
      return { address: client.address, since: client.since };
    });
    assert.equal(line?.reason, 'fault');
  });
});

describe('a fault in HTTP/2', () => {
  test('of one stream: it is reset, the others continue', async () => {
    using client = await H2Client.connect(gateway.port);
    const first = client.open('neighbour:443');
    await first.receives('api\n');
    await assertContainedAmong(2, async () => {
      const second = client.open('fault-stream:443');
      await until('its reset', () => second.stream.closed);
      assert.notEqual(second.stream.rstCode, 0);
    });
    assert.ok(!first.stream.closed && !client.session.destroyed);
  });

  test('of the connection: it is reset with its streams', async () => {
    await assertContained(streamThread, async () => {
      using client = await H2Client.connect(gateway.port);
      for (let ping = 0; ping < 2; ping++)
        await new Promise(resolve => client.session.ping(() => resolve(undefined)));
      await until('its end', () => client.session.destroyed);
      return { address: client.address, since: '' };
    });
  });
});

/** Like assertContained(), but the client's connection and its other streams stay open. */
async function assertContainedAmong(others: number, strike: () => Promise<void>): Promise<void> {
  const before = { lines: faultLines().length, count: await counted('fault') };
  await strike();
  await until('it to be counted', async () => (await counted('fault')) === before.count + 1);
  assert.equal(faultLines().length, before.lines + 1);
  assertAlive(gateway);
  await ping();
  await until('the others alone to be open', async () => {
    const { counts } = (await gateway.status()) as { counts: { connections: number } };
    return counts.connections === 1 + others;
  });
}

describe('a fault in TLS of our own', { skip: !hasTls }, () => {
  const enter = async (servername: string) => {
    const socket = connectTls({
      port: gateway.port,
      host: '127.0.0.1',
      servername,
      ALPNProtocols: ['causeway/1'],
      rejectUnauthorized: false,
    });
    let end = '';
    socket.on('error', ({ message }) => (end ||= message));
    socket.on('close', () => (end ||= 'closed'));
    const address = await new Promise<string>(resolve =>
      socket.once('connect', () => resolve(`${socket.localAddress}:${socket.localPort}`)),
    );
    return { socket, address, ended: () => until('the end', () => end) };
  };

  test('when a certificate is chosen', async () => {
    const line = await assertContained(streamThread, async () => {
      const { address, ended } = await enter('fault.tunnel.test');
      await ended();
      return { address, since: '' };
    });
    assert.equal(line?.reason, 'fault');
  });

  test('when the inner connection begins', async () => {
    await assertContained(streamThread, async () => {
      const { address, ended } = await enter('ok.tunnel.test');
      await ended();
      await until('its line', () =>
        gateway.connections().some(({ peer, reason }) => peer === address && reason === 'fault'),
      );
      return undefined;
    });
  });
});

test('they leave no descriptor open', async () => {
  // Idle connections to the backend are kept for 4 s.
  await until('their descriptors to be closed', async () => {
    await ping();
    return (await openFiles(gateway)) <= files;
  });
});

test('a thread that dies while it takes a connection leaves nothing of it behind', async () => {
  neighbour[Symbol.dispose]();
  await untilIdle(gateway);
  const deaths = () => gateway.lines().filter(({ msg }) => msg === 'thread died').length;
  using client = await HttpClient.connect(gateway.port);
  client.send(`PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x08\x06\0\0\0\0\0${DEADLY_PING}`);
  // With FIN on net: Node cannot have it otherwise.
  await client.ended();
  await until('the death', () => deaths() === 1);
  await untilIdle(gateway);
  const line = await lineOf(gateway, client);
  assert.equal(line?.reason, 'shutdown');
});
