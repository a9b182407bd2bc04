// `timeouts.stalled`: a side that reads nothing of what waits for it, or stops within a request, is ended with the
// other side, although `idle` is off; a side that has nothing to read, or reads a little now and then, is not.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as tlsConnect } from 'node:tls';
import { clusterKey } from '../../src/identity/cluster-key.ts';
import { sign } from '../../src/identity/sign.ts';
import { buildProxyV2 } from '../../src/wire/proxy-protocol.ts';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { supports } from './engine.ts';
import { Backend, bytes, connectClient, hello, lineOf, type Peer, until } from './given.ts';
import { H2Client } from './h2-client.ts';
import { HttpClient, request } from './http-given.ts';

/** Longer than a busy machine delays a reader. */
const STALLED_MS = 1500;
const SECRET = 'a secret for tests, of at least 32 bytes';
const MIB = 1024 * 1024;

const stack = new AsyncDisposableStack();
const skip = missingPrograms('openssl');
let backend: Backend;
let gateway: Causeway;
let ca: Buffer;

before(async () => {
  const dir = stack.use(await tempDir());
  await writeFile(dir.file('secret'), SECRET);
  backend = stack.use(await Backend.start({ silent: true }));
  const identity = supports('signatures') ? `identity: { secretFile: ${dir.file('secret')} }` : '';
  const tunnel = skip === false && supports('signatures') ? await tunnelEnd() : '';
  gateway = stack.use(
    await startCauseway({
      config: `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
workers: 2
timeouts: { stalled: ${STALLED_MS}ms, halfClosed: off }
${identity}
${tunnel}
clusters:
  - name: a
    id: a-1
    api: { hosts: [a.test], backends: ["${backend.text}"] }
    apps: { hosts: [web.test], http: ["${backend.text}"] }
`,
    }),
  );
});

after(() => stack.disposeAsync());

async function tunnelEnd(): Promise<string> {
  const { certFile, keyFile } = await certificateFor('t.test');
  ca = await readFile((await authority()).certFile);
  return `tunnel: { hosts: [t.test], certificates: [{ certFile: ${certFile}, keyFile: ${keyFile} }] }`;
}

/** The backend's side of the connection that sent this word. */
function served(word: string): Promise<Peer> {
  return until(`${word} at the backend`, () =>
    backend.connections.find(connection => connection.received().includes(word)),
  );
}

/** A tunnel by SNI. */
async function tunnel(word: string): Promise<[client: Peer, served: Peer]> {
  const client = await connectClient(gateway.port);
  client.send(hello('a.test'), word);
  return [client, await served(word)];
}

/** Sends as fast as the socket accepts. */
function flood({ socket }: Peer): void {
  const more = () => {
    while (socket.writable && socket.write(Buffer.alloc(64 * 1024)));
  };
  socket.on('drain', more);
  more();
}

async function endedStalled(
  client: { readonly address: string },
  who: 'client' | 'backend' = 'client',
): Promise<void> {
  const reasons = ['idle-timeout', ...(supports('stalledReason') ? [] : [`${who}-reset`])];
  const { reason } = await lineOf(gateway, client);
  assert.ok(reasons.includes(String(reason)), `${reason} is one of ${reasons}`);
}

/** How a client ends whose backend stalls. */
const RESET = supports('resets') ? 'RST' : 'FIN';

describe('a side of a tunnel that reads nothing', { concurrency: true }, () => {
  test('the client: both get a reset, and kept bytes are counted until then', async () => {
    const [client, other] = await tunnel('client stops');
    client.socket.pause();
    flood(other);
    if (supports('keptBytes'))
      await until('bytes to be kept', () => gateway.metric('causeway_kept_bytes', { cluster: 'a' }));
    assert.equal(await other.untilEnd(), 'RST');
    await endedStalled(client);
    client.socket.resume();
    assert.equal(await client.untilEnd(), 'RST');
  });

  test('the backend: both get a reset', async () => {
    const [client, other] = await tunnel('backend stops');
    other.socket.pause();
    flood(client);
    assert.equal(await client.untilEnd(), RESET);
    await endedStalled(client, 'backend');
    other.socket.resume();
    assert.equal(await other.untilEnd(), 'RST');
  });

  // On `net`, Node cannot see what the kernel has buffered.
  if (process.env.CAUSEWAY_TEST_ENGINE !== 'net') {
    test('the client, with less than the kernel buffers', async () => {
      const [client, other] = await tunnel('stops early');
      client.socket.pause();
      // More than the client's receive buffer, and less than our send buffer.
      other.send(Buffer.alloc(MIB));
      assert.equal(await other.untilEnd(), 'RST');
      await endedStalled(client);
      client.socket.resume();
      assert.equal(await client.untilEnd(), 'RST');
    });
  }

  if (supports('signatures')) {
    test('a client of an agent’s tunnel', { skip }, async () => {
      const socket = tlsConnect({
        host: '127.0.0.1',
        port: gateway.port,
        servername: 't.test',
        ca,
        ALPNProtocols: ['causeway/1'],
      });
      socket.on('error', () => {});
      const tlvs = [
        { type: 0x20, value: Buffer.from('a-1') },
        { type: 0xe1, value: sign(clusterKey(Buffer.from(SECRET), 'a-1'), { id: 'a-1' }) },
      ];
      socket.write(bytes(buildProxyV2({ tlvs }), hello('a.test'), 'through a tunnel'));
      socket.pause();
      const other = await served('through a tunnel');
      flood(other);
      assert.equal(await other.untilEnd(), 'RST');
      const inner = await gateway.line(line => line.clusterId === 'a-1' && line.msg === 'connection');
      assert.equal(inner.reason, 'idle-timeout');
      socket.destroy();
    });
  }
});

describe('over HTTP', { concurrency: true }, () => {
  const post = (path: string, ...lines: readonly string[]) =>
    request(`POST ${path} HTTP/1.1`, 'Host: web.test', 'Content-Length: 100000000', ...lines);

  if (supports('stalledBody')) {
    test('a body that stops halfway: 408, and the backend is released', async () => {
      using client = await HttpClient.connect(gateway.port);
      client.send(post('/half'), 'half of it');
      const other = await served('half of it');
      assert.equal((await client.lastAnswer()).status, 408);
      await endedStalled(client);
      await until('the end of the backend', () => other.end());
    });
  }

  test('a body that the backend does not read: the client gets a reset', async () => {
    using client = await HttpClient.connect(gateway.port);
    client.send(post('/unread'), 'unread body');
    (await served('/unread')).socket.pause();
    flood(client.peer);
    assert.equal(await client.peer.untilEnd(), RESET);
    await endedStalled(client, 'backend');
  });

  for (const [what, head] of [
    ['an answer', request('HTTP/1.1 200 OK', 'Content-Length: 100000000000')],
    [
      'an upgraded connection',
      request('HTTP/1.1 101 Switching Protocols', 'Upgrade: echo', 'Connection: Upgrade'),
    ],
  ] as const) {
    test(`${what} that the client does not read: both are ended`, async () => {
      using client = await HttpClient.connect(gateway.port);
      const path = `/${what.replaceAll(' ', '-')}`;
      client.ask('web.test', path, 'Connection: Upgrade', 'Upgrade: echo');
      const other = await served(path);
      client.peer.socket.pause();
      other.send(head);
      flood(other);
      await until('the end of the backend', () => other.end());
      await endedStalled(client);
      client.peer.socket.resume();
      assert.equal(await client.peer.untilEnd(), 'RST');
    });
  }

  test('an upgraded connection whose backend reads nothing: both are ended', async () => {
    using client = await HttpClient.connect(gateway.port);
    client.ask('web.test', '/switched', 'Connection: Upgrade', 'Upgrade: echo');
    const other = await served('/switched');
    other.send(request('HTTP/1.1 101 Switching Protocols', 'Upgrade: echo', 'Connection: Upgrade'));
    assert.equal((await client.answer()).status, 101);
    other.socket.pause();
    flood(client.peer);
    assert.equal(await client.peer.untilEnd(), RESET);
    await endedStalled(client, 'backend');
  });

  test('a backend that is slow to respond, or pauses within its response, does not stall', async () => {
    using client = await HttpClient.connect(gateway.port);
    client.ask('web.test', '/thinking');
    const other = await served('/thinking');
    await delay(2 * STALLED_MS);
    other.send(request('HTTP/1.1 200 OK', 'Content-Length: 4'), 'ok');
    await delay(2 * STALLED_MS);
    other.send('ay');
    assert.equal((await client.answer()).body.toString(), 'okay');
  });
});

if (supports('connect')) {
  test('an HTTP/2 stream that the client does not read: only that stream is ended', async () => {
    using client = await H2Client.connect(gateway.port);
    const [stalled, live] = [client.open('a:443'), client.open('a:443')];
    stalled.stream.write('a stalled stream');
    live.stream.write('a live stream');
    const [other, alive] = [await served('a stalled stream'), await served('a live stream')];
    await stalled.status();
    stalled.stream.pause();
    flood(other);
    assert.equal(await other.untilEnd(), 'RST');
    assert.equal((await lineOf(gateway, { address: client.address })).reason, 'idle-timeout');
    alive.send('still here');
    await live.receives('still here');
  });
}

describe('connections that do not stall continue', { concurrency: true }, () => {
  test('a tunnel with nothing to read', async () => {
    const [client, other] = await tunnel('idle');
    await delay(3 * STALLED_MS);
    other.send('after a while');
    await client.receives('after a while');
    client.reset();
  });

  test('a client that reads a little now and then', async () => {
    const [client, other] = await tunnel('slow');
    client.socket.pause();
    flood(other);
    // For longer than the time-out, and in total more than both kernels buffer.
    for (let step = 0; step < 30; step++) {
      const before = client.received().length;
      client.socket.resume();
      await client.receives(before + MIB);
      client.socket.pause();
      await delay((3 * STALLED_MS) / 30);
    }
    assert.equal(other.end(), undefined);
    client.reset();
    assert.equal((await lineOf(gateway, client)).reason, 'client-reset');
  });
});

test('no bytes are kept and nothing is open afterwards', async () => {
  await until('all to be over', async () => {
    const { counts } = (await gateway.status()) as { counts: { connections: number } };
    return counts.connections === 0 && (await gateway.metric('causeway_kept_bytes')) === 0;
  });
});

test('off: a side that reads nothing is never ended', async () => {
  await using patient = await startCauseway({
    config: `
listen: ["127.0.0.1:0"]
timeouts: { stalled: off }
clusters: [{ name: a, api: { hosts: [a.test], backends: ["${backend.text}"] } }]
`,
  });
  const client = await connectClient(patient.port);
  client.send(hello('a.test'), 'patient');
  const other = await served('patient');
  client.socket.pause();
  flood(other);
  if (supports('keptBytes'))
    await until('bytes to be kept', () => patient.metric('causeway_kept_bytes', { cluster: 'a' }));
  await delay(2 * STALLED_MS);
  assert.deepEqual([client.end(), other.end()], [undefined, undefined]);
  client.reset();
  await lineOf(patient, client);
});
