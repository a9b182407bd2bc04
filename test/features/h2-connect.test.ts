// CONNECT over HTTP/2: each stream is a connection with its own route, limits, log line and
// close reason, and does not affect the others.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { constants } from 'node:http2';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import * as fc from 'fast-check';
import { clusterKey } from '../../src/identity/cluster-key.ts';
import { sign } from '../../src/identity/sign.ts';
import { freePort } from '../../testbed/free-port.ts';
import { type Causeway, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, bytes, connectClient, lineOf, proxyV2, startBlackHole, until, visit } from './given.ts';
import {
  connectFrame,
  DATA,
  END_STREAM,
  frame,
  framesOf,
  goawayCode,
  H2Client,
  type H2Stream,
  HEADERS,
  PING,
  PREFACE,
  RST_STREAM,
  requestFrame,
  resetFrame,
  SETTINGS,
} from './h2-client.ts';

const { NGHTTP2_CONNECT_ERROR, NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_HTTP_1_1_REQUIRED, NGHTTP2_CANCEL } =
  constants;

const STRANGER = '127.0.0.9';
const BALANCER = '127.0.0.8';
/** Kubermatic's form of a name. */
const KUBERMATIC = 'apiserver-external.cluster-x.svc.cluster.local';
const GREETING = bytes(PREFACE, frame(SETTINGS, 0, 0));
const SECRET = 'a secret for tests, of at least 32 bytes';
const MB = 1_000_000;

let api: Backend;
let konnectivity: Backend;
let silent: Backend;
let echo: Echo;
let gateway: Causeway;
const stack = new AsyncDisposableStack();

before(async () => {
  api = stack.use(await Backend.start({ name: 'api' }));
  konnectivity = stack.use(await Backend.start({ name: 'konnectivity' }));
  silent = stack.use(await Backend.start({ silent: true }));
  echo = stack.use(await Echo.start());
  const hole = stack.use(await startBlackHole());
  const closed = await freePort();
  const secret = stack.use(await tempDir()).file('secret');
  await writeFile(secret, SECRET);
  gateway = stack.use(
    await startCauseway({
      config: `
listen:
  - { on: "127.0.0.1:0", agents: [127.0.0.1/32, 192.0.2.0/24], balancers: [${BALANCER}/32] }
  - { on: "127.0.0.2:0", agents: [127.0.0.1/32], only: [konnectivity] }
timeouts: { connect: 200ms, hello: 2s, halfClosed: 3s }
identity: { secretFile: ${secret} }
clusters:
  - name: lab
    id: Lab-1
    api: { hosts: [api.lab.test], connect: [${KUBERMATIC}], backends: ["${api.text}"] }
    konnectivity: { connect: [konnectivity.lab.svc.cluster.local], backends: ["${konnectivity.text}"] }
  - { name: silent, api: { backends: ["${silent.text}"] } }
  - { name: echo, api: { backends: ["127.0.0.1:${echo.port}"] } }
  - { name: signed, id: id-3, identity: required, api: { backends: ["${api.text}"] } }
  - { name: denied, allow: [10.0.0.0/8], api: { backends: ["${api.text}"] } }
  - { name: full, limits: { connections: 1 }, api: { backends: ["${silent.text}"] } }
  - { name: empty, api: { backends: [] } }
  - { name: refusing, api: { backends: ["127.0.0.1:${closed}"] } }
  - { name: swallowing, api: { backends: ["127.0.0.1:${hole.port}"] } }
`,
    }),
  );
});

after(() => stack.disposeAsync());

/** A client, from when on: another one may have used its port before. */
interface Seen {
  readonly address: string;
  readonly since: string;
}

const isOf = (line: LogLine, { address, since }: Seen) =>
  line.client === address && String(line.time) >= since;

/** Log lines of a client's streams. */
function streamLines(client: Seen): LogLine[] {
  return gateway.connections().filter(line => isOf(line, client) && line.protocol === 'connect');
}

function streamLine(client: Seen): Promise<LogLine> {
  return until(`a line of ${client.address}`, () => streamLines(client)[0]);
}

/** The log line of the connection itself. */
async function outerLine(client: Seen, from: Causeway = gateway): Promise<LogLine> {
  const fits = (line: LogLine) => isOf(line, client) && line.protocol === 'h2';
  const line = await from.line(line => line.msg === 'connection' && fits(line));
  assert.equal(from.connections().filter(fits).length, 1);
  return line;
}

async function openConnections({ admin }: Causeway): Promise<Record<string, string>[]> {
  return (await (await fetch(`${admin}/api/v1/connections`)).json()) as Record<string, string>[];
}

/** Opens a stream to the silent backend, and finds its connection there. */
async function tunnel(client: H2Client, cluster = 'silent'): Promise<[H2Stream, Backend['connections'][0]]> {
  const stream = client.open(`${cluster}:443`);
  const mark = `${client.address} ${stream.stream.id} ${Math.random()}`;
  stream.stream.write(mark);
  assert.equal(await stream.status(), 200);
  const served = await until('its connection', () =>
    silent.connections.find(peer => peer.received().includes(mark)),
  );
  return [stream, served];
}

describe('CONNECT over HTTP/2 is served', { concurrency: true }, () => {
  const gardener = { 'x-gardener-destination': `outbound|443||${KUBERMATIC}` };
  const served: readonly (readonly [by: string, authority: string, backend: string, headers?: object])[] = [
    ["Kubermatic's form", `${KUBERMATIC}:443`, 'api'],
    ['an id', 'Lab-1:6443', 'api'],
    ['a cluster name', 'lab:443', 'api'],
    ['an API host', 'api.lab.test:443', 'api'],
    ['an API host in capitals with a final dot', 'API.lab.test.:443', 'api'],
    ['no port', 'lab', 'api'],
    ['a connect name of another route', 'konnectivity.lab.svc.cluster.local:8132', 'konnectivity'],
    ["Gardener's header", 'anything.at.all:443', 'api', gardener],
  ];
  for (const [by, authority, backend, headers] of served) {
    test(`by ${by}`, async () => {
      using client = await H2Client.connect(gateway.port);
      const stream = client.open(authority, { ...headers });
      assert.equal(await stream.status(), 200);
      await stream.receives(`${backend}\n`);
      stream.stream.end();
      assert.equal(await stream.closes(), 0);
      assert.equal(stream.received().toString(), `${backend}\n`);
      const line = await streamLine(client);
      assert.deepEqual(
        [line.cluster, line.route, line.backend, line.reason, line.peer, line.listener],
        [
          'lab',
          backend,
          (backend === 'api' ? api : konnectivity).text,
          'done',
          client.address,
          '127.0.0.1:0',
        ],
      );
      client.session.close();
      const outer = await outerLine(client);
      assert.deepEqual([outer.reason, outer.cluster, outer.backend], ['done', null, null]);
    });
  }

  test('by a signed id, once', async () => {
    using client = await H2Client.connect(gateway.port);
    const signature = Buffer.from(sign(clusterKey(Buffer.from(SECRET), 'id-3'), { id: 'id-3' })).toString(
      'base64url',
    );
    const stream = client.open('id-3:443', { 'causeway-signature': signature });
    assert.equal(await stream.status(), 200);
    const again = client.open('id-3:443', { 'causeway-signature': signature });
    assert.equal(await again.status(), 403);
    await again.receives('bad-signature: ');
  });

  test('for the client in a balancer’s PROXY header', async () => {
    using client = await connectClient(gateway.port, { from: BALANCER });
    client.send(proxyV2({ source: '192.0.2.7' }), GREETING, connectFrame(1, 'lab:443'));
    await client.receives('api\n');
    const line = await until('its line', () => {
      client.finish();
      return gateway
        .connections()
        .find(one => one.client === '192.0.2.7:40000' && one.protocol === 'connect');
    });
    assert.equal(line.cluster, 'lab');
  });
});

describe('CONNECT over HTTP/2 is refused', { concurrency: true }, () => {
  const refused: readonly (readonly [
    when: string,
    authority: string,
    status: number,
    reason: string,
    from?: string,
  ])[] = [
    ['nobody has the name', 'nobody:443', 404, 'unknown-host'],
    ['it comes from no agent', 'lab:443', 403, 'untrusted-agent', STRANGER],
    ['the client is not allowed', 'denied:443', 403, 'not-allowed'],
    ['a signature is missing', 'id-3:443', 403, 'bad-signature'],
    ['there is no backend', 'empty:443', 503, 'no-backend'],
    ['the backend refuses', 'refusing:443', 502, 'connect-failed'],
    ['the backend does not answer', 'swallowing:443', 504, 'connect-timeout'],
    ['the port is none', 'lab:70000', 400, 'bad-request'],
  ];
  for (const [when, authority, status, reason, from] of refused) {
    test(`with ${status} when ${when}`, async () => {
      using client = await H2Client.connect(gateway.port, from === undefined ? {} : { from });
      const stream = client.open(authority);
      assert.equal(await stream.status(), status);
      assert.equal(await stream.closes(), 0);
      assert.match(stream.received().toString(), new RegExp(`^${reason}: .*\n$`));
      assert.equal((await streamLine(client)).reason, reason);
      // The connection itself stays open.
      const next = client.open(authority);
      assert.equal(await next.status(), status);
    });
  }

  test('with 404 if the listener does not serve the route', async () => {
    using client = await H2Client.connect(gateway.ports[1], { to: '127.0.0.2', from: '127.0.0.1' });
    assert.equal(await client.open('lab:443').status(), 404);
    assert.equal(await client.open('konnectivity.lab.svc.cluster.local:443').status(), 200);
  });

  test('with 503 over the limit', async () => {
    using client = await H2Client.connect(gateway.port);
    const [first] = await tunnel(client, 'full');
    const second = client.open('full:443');
    assert.equal(await second.status(), 503);
    await second.receives('over-limit: ');
    assert.equal(first.code(), undefined);
  });

  test('with 400 without an authority, and with PROTOCOL_ERROR for what HTTP/2 forbids', async () => {
    using client = await connectClient(gateway.port);
    client.send(
      GREETING,
      requestFrame(1, [
        [':method', 'CONNECT'],
        [':authority', 'a b'],
      ]),
    );
    const answer = await until('an answer', () => framesOf(client).find(({ stream }) => stream === 1));
    assert.ok(answer.type === HEADERS || answer.type === RST_STREAM);
    client.send(
      requestFrame(3, [
        [':method', 'CONNECT'],
        [':authority', 'lab:443'],
        [':protocol', 'websocket'],
        [':scheme', 'http'],
        [':path', '/'],
      ]),
    );
    const reset = await until('a reset', () =>
      framesOf(client).find(({ type, stream }) => type === RST_STREAM && stream === 3),
    );
    assert.equal(reset.payload.readUInt32BE(0), constants.NGHTTP2_PROTOCOL_ERROR);
  });
});

test('other requests are reset with HTTP_1_1_REQUIRED, and CONNECT still works', async () => {
  using client = await H2Client.connect(gateway.port);
  const get = client.session.request({ ':path': '/' });
  get.on('error', () => {});
  await until('the reset', () => get.closed);
  assert.equal(get.rstCode, NGHTTP2_HTTP_1_1_REQUIRED);
  assert.equal(await client.open('lab:443').status(), 200);
});

test('a hundred concurrent streams are served', async () => {
  using client = await H2Client.connect(gateway.port);
  const streams = Array.from({ length: 100 }, () => client.open('echo:443'));
  await Promise.all(
    streams.map(async (stream, index) => {
      stream.stream.end(`stream ${index}`);
      assert.equal(await stream.closes(), 0);
      assert.equal(stream.received().toString(), `stream ${index}`);
    }),
  );
  await until('their lines', () => streamLines(client).length === 100);
  assert.ok(streamLines(client).every(line => line.reason === 'done'));
});

test('100 MB each way at once arrive unchanged', async () => {
  using client = await H2Client.connect(gateway.port);
  const before = await gateway.metric('causeway_bytes_total', { cluster: 'echo', direction: 'in' });
  const { stream } = client.open('echo:443');
  const sent = createHash('sha256');
  const heard = createHash('sha256');
  let count = 0;
  stream.removeAllListeners('data');
  stream.on('data', (chunk: Buffer) => {
    heard.update(chunk);
    count += chunk.length;
  });
  const block = randomBytes(MB);
  for (let part = 0; part < 100; part++) {
    block.writeUInt32BE(part);
    sent.update(block);
    if (!stream.write(Buffer.from(block))) await once(stream, 'drain');
  }
  stream.end();
  await once(stream, 'close');
  assert.equal(count, 100 * MB);
  assert.equal(heard.digest('hex'), sent.digest('hex'));
  const line = await streamLine(client);
  assert.ok(Number(line.in) >= 100 * MB && Number(line.out) >= 100 * MB);
  const counted =
    (await gateway.metric('causeway_bytes_total', { cluster: 'echo', direction: 'in' })) - before;
  // Once, although the bytes pass the worker twice.
  assert.ok(counted >= 100 * MB && counted < 101 * MB, String(counted));
});

describe('the end of one side is forwarded to the other', { concurrency: true }, () => {
  test('END_STREAM becomes FIN, and the other direction stays open', async () => {
    using client = await H2Client.connect(gateway.port);
    const [stream, served] = await tunnel(client);
    stream.stream.end('last words');
    await served.receives('last words');
    assert.equal(await served.untilEnd(), 'FIN');
    served.send('still here');
    await stream.receives('still here');
    served.finish();
    assert.equal(await stream.closes(), 0);
    assert.equal((await streamLine(client)).reason, 'done');
  });

  test('END_STREAM before the response loses no bytes', async () => {
    using client = await H2Client.connect(gateway.port);
    const stream = client.open('echo:443');
    stream.stream.end('early');
    assert.equal(await stream.closes(), 0);
    assert.equal(stream.received().toString(), 'early');
  });

  test('FIN becomes END_STREAM, and the other direction stays open', async () => {
    using client = await H2Client.connect(gateway.port);
    const [stream, served] = await tunnel(client);
    served.send('bye');
    served.finish();
    await stream.ends();
    assert.equal(stream.received().toString(), 'bye');
    stream.stream.write('an answer to that');
    await served.receives('an answer to that');
    stream.stream.end();
    assert.equal(await stream.closes(), 0);
    assert.equal((await streamLine(client)).reason, 'done');
  });

  test('RST_STREAM becomes a reset', async () => {
    using client = await connectClient(gateway.port);
    client.send(GREETING, connectFrame(1, 'silent:443'), connectFrame(3, 'silent:443'));
    client.send(frame(DATA, 0, 1, `one ${client.address}`), frame(DATA, 0, 3, `other ${client.address}`));
    const [one, other] = await Promise.all(
      ['one', 'other'].map(name =>
        until(name, () =>
          silent.connections.find(peer => peer.received().includes(`${name} ${client.address}`)),
        ),
      ),
    );
    client.send(resetFrame(1, NGHTTP2_CANCEL));
    assert.equal(await one.untilEnd(), 'RST');
    assert.equal((await streamLine(client)).reason, 'client-reset');
    client.send(frame(DATA, 0, 3, 'still here'));
    await other.receives('still here');
  });

  for (const when of ['', ' behind END_STREAM of the client'])
    test(`a reset${when} becomes RST_STREAM with CONNECT_ERROR, without END_STREAM`, async () => {
      using client = await connectClient(gateway.port);
      client.send(GREETING, connectFrame(1, 'silent:443'), connectFrame(3, 'silent:443'));
      client.send(frame(DATA, when === '' ? 0 : END_STREAM, 1, `one ${client.address}`));
      client.send(frame(DATA, 0, 3, `other ${client.address}`));
      const [one, other] = await Promise.all(
        ['one', 'other'].map(name =>
          until(name, () =>
            silent.connections.find(peer => peer.received().includes(`${name} ${client.address}`)),
          ),
        ),
      );
      if (when !== '') assert.equal(await one.untilEnd(), 'FIN');
      one.send('what came before it');
      await client.receives('what came before it');
      one.reset();
      const reset = await until('the reset', () =>
        framesOf(client).find(({ type, stream }) => type === RST_STREAM && stream === 1),
      );
      assert.equal(reset.payload.readUInt32BE(0), NGHTTP2_CONNECT_ERROR);
      assert.ok(framesOf(client).every(({ type, flags }) => type !== DATA || (flags & END_STREAM) === 0));
      assert.equal((await streamLine(client)).reason, 'backend-reset');
      other.send('still here');
      await client.receives('still here');
    });

  test('a lost connection resets all its streams', async () => {
    using client = await H2Client.connect(gateway.port);
    const tunnels = [await tunnel(client), await tunnel(client)];
    client.session.socket.destroy();
    for (const [, served] of tunnels) assert.equal(await served.untilEnd(), 'RST');
    await until('both lines', () => streamLines(client).length === 2);
    assert.ok(streamLines(client).every(line => line.reason === 'client-reset'));
    await outerLine(client);
  });

  test('a lost connection also resets a stream that has sent END_STREAM and does not read', async () => {
    using client = await H2Client.connect(gateway.port);
    const [stalled, served] = await tunnel(client);
    stalled.stream.pause().end();
    assert.equal(await served.untilEnd(), 'FIN');
    served.socket.write(randomBytes(5 * MB));
    const beyondWindows = async () =>
      (await openConnections(gateway)).some(
        open => open.client === client.address && open.protocol === 'connect' && Number(open.out) > MB / 10,
      );
    await until('bytes that are kept', beyondWindows);
    client.session.socket.destroy();
    assert.equal((await streamLine(client)).reason, 'client-reset');
  });

  test('a client that leaves before the response is client-gone', async () => {
    using client = await connectClient(gateway.port);
    client.send(GREETING, connectFrame(1, 'swallowing:443'));
    await until('the dial', async () =>
      (await openConnections(gateway)).some(
        ({ protocol, client: from }) => protocol === 'connect' && from === client.address,
      ),
    );
    client.send(resetFrame(1, NGHTTP2_CANCEL));
    assert.equal((await streamLine(client)).reason, 'client-gone');
  });
});

describe('a stalled stream does not hold up others', { concurrency: true }, () => {
  test('when the client does not read', async () => {
    using client = await H2Client.connect(gateway.port);
    const [stalled, served] = await tunnel(client);
    stalled.stream.pause();
    served.socket.write(randomBytes(5 * MB));
    await passes(client);
    // Everything arrives once it is read.
    stalled.stream.resume();
    await until('the rest', () => stalled.received().length === 5 * MB);
  });

  test('when the backend does not read', async () => {
    using client = await H2Client.connect(gateway.port);
    const [stalled, served] = await tunnel(client);
    served.socket.pause();
    let sent = 0;
    const isTaken = async () => {
      sent += MB;
      if (stalled.stream.write(randomBytes(MB))) return true;
      const drained = once(stalled.stream, 'drain').then(() => true);
      // Long enough to drain if it were not stalled.
      const others = passes(client)
        .then(() => passes(client))
        .then(() => false);
      return Promise.race([drained, others]);
    };
    while (await isTaken());
    assert.ok(sent < 50 * MB, `${sent} bytes were taken for a backend that does not read`);
    served.socket.resume();
    await served.receives(sent);
  });

  async function passes(client: H2Client): Promise<void> {
    const sent = randomBytes(2 * MB);
    const stream = client.open('echo:443');
    stream.stream.end(sent);
    assert.equal(await stream.closes(), 0);
    assert.ok(stream.received().equals(sent));
  }
});

describe('a flood ends the connection with ENHANCE_YOUR_CALM and over-limit', { concurrency: true }, () => {
  const floods: readonly (readonly [of: string, make: (index: number) => Buffer])[] = [
    [
      'streams that are reset before they are answered',
      index => bytes(connectFrame(2 * index + 1, 'silent:443'), resetFrame(2 * index + 1, NGHTTP2_CANCEL)),
    ],
    [
      'requests that are no CONNECT',
      index =>
        requestFrame(2 * index + 1, [
          [':method', 'GET'],
          [':scheme', 'http'],
          [':path', '/'],
          [':authority', 'lab'],
        ]),
    ],
    ['PING', () => frame(PING, 0, 0, '12345678')],
    ['SETTINGS', () => frame(SETTINGS, 0, 0)],
  ];
  for (const [of, make] of floods) {
    test(`of ${of}`, async () => {
      using client = await connectClient(gateway.port);
      client.send(GREETING);
      const all = Array.from({ length: 5000 }, (_, index) => make(index));
      for (let at = 0; at < all.length && client.end() === undefined; at += 100) {
        client.send(...all.slice(at, at + 100));
        await new Promise(resolve => setImmediate(resolve));
      }
      await client.untilEnd();
      assert.equal((await outerLine(client)).reason, 'over-limit');
      // A flooding client may not receive it.
      const code = goawayCode(client);
      assert.ok(code === undefined || code === NGHTTP2_ENHANCE_YOUR_CALM, String(code));
      assert.ok(streamLines(client).length < 2500, `${streamLines(client).length} streams`);
      using other = await H2Client.connect(gateway.port);
      assert.equal(await other.open('lab:443').status(), 200);
    });
  }

  test('streams over the offered limit are refused, and the connection stays open', async () => {
    using client = await H2Client.connect(gateway.port);
    await until('SETTINGS', () => client.session.remoteSettings.maxConcurrentStreams === 256);
    using raw = await connectClient(gateway.port);
    const ids = Array.from({ length: 300 }, (_, index) => 2 * index + 1);
    raw.send(GREETING, ...ids.map(id => connectFrame(id, 'silent:443')));
    const refused = () =>
      framesOf(raw).filter(
        ({ type, payload }) =>
          type === RST_STREAM && payload.readUInt32BE(0) === constants.NGHTTP2_REFUSED_STREAM,
      );
    await until('the refusals', () => refused().length >= 44);
    await until(
      'the rest to be served',
      () => framesOf(raw).filter(({ type }) => type === HEADERS).length === 256,
    );
    assert.equal(refused().length, 44);
    assert.equal(raw.end(), undefined);
  });
});

describe('nothing is left behind', () => {
  /** Waits until no connection is open; no other test runs meanwhile. */
  const untilIdle = () =>
    until('all to end', async () => {
      const { counts } = (await gateway.status()) as { counts: { connections: number } };
      return counts.connections === 0 && (await gateway.metric('causeway_connections_active')) === 0;
    });

  test('by clients that never close their side', async () => {
    await untilIdle();
    const files = () => readdirSync(`/proc/${gateway.program.pid}/fd`).length;
    // Some may still be those of connections that have ended.
    const before = files();
    const since = new Date().toISOString();
    const isLate = ({ reason, time }: LogLine) => reason === 'hello-timeout' && String(time) >= since;
    // They read nothing either, so they do not see the FIN.
    const sockets = Array.from({ length: 50 }, () => connect(gateway.port, '127.0.0.1').pause());
    try {
      for (const socket of sockets) socket.on('error', () => {}).write(GREETING);
      await until('their lines', () => gateway.connections().filter(isLate).length === sockets.length);
      await until('the end of all', () => files() < before + sockets.length / 2);
      await untilIdle();
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });

  test('by streams that end in any way at any moment', async () => {
    let lines = 0;
    const clients: Seen[] = [];
    for (let round = 0; round < 20; round++) {
      using client = await H2Client.connect(gateway.port);
      clients.push(client);
      const served = silent.connections.length;
      const streams = Array.from({ length: 20 }, () => client.open('silent:443'));
      lines += streams.length;
      for (const { stream } of streams) stream.write('x');
      await Promise.all(streams.map(stream => stream.status()));
      for (const [index, { stream }] of streams.entries()) {
        if (index % 3 === 0) stream.destroy();
        else if (index % 3 === 1) stream.end();
      }
      for (const [index, peer] of silent.connections.slice(served).entries()) {
        if (index % 2 === 0) peer.finish();
        else peer.reset();
      }
      if (round % 2 === 0) client.session.close();
    }
    await untilIdle();
    const reported = () => clients.flatMap(streamLines).length;
    await until('a line for each', () => reported() === lines);
  });

  test('by frames of any kind', async () => {
    const payload = fc.uint8Array({ maxLength: 40 });
    const anyFrame = fc
      .tuple(
        fc.integer({ min: 0, max: 12 }),
        fc.integer({ min: 0, max: 255 }),
        fc.integer({ min: 0, max: 9 }),
        payload,
      )
      .map(([type, flags, stream, content]) => frame(type, flags, stream, content));
    const stream = fc.integer({ min: 0, max: 4 }).map(index => 2 * index + 1);
    const part = fc.oneof(
      { weight: 3, arbitrary: stream.map(id => connectFrame(id, 'echo:443')) },
      { weight: 2, arbitrary: stream.map(id => frame(DATA, 0, id, 'some bytes')) },
      { weight: 1, arbitrary: stream.map(id => frame(DATA, END_STREAM, id, 'the last bytes')) },
      { weight: 1, arbitrary: stream.map(id => resetFrame(id, NGHTTP2_CANCEL)) },
      { weight: 2, arbitrary: anyFrame },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 20 }), async parts => {
        using client = await connectClient(gateway.port);
        client.send(GREETING, ...parts);
        await client.receives(9);
        assert.equal(gateway.program.exit(), undefined);
      }),
      { numRuns: 200 },
    );
    await untilIdle();
    using client = await H2Client.connect(gateway.port);
    assert.equal(await client.open('lab:443').status(), 200);
  });
});

describe('a connection ends', { concurrency: true }, () => {
  const ends: readonly (readonly [reason: string, when: string, says: Buffer])[] = [
    ['not-recognized', 'the preface is none', bytes('PRI * HTTP/2.0\r\n\r\nXY\r\n\r\n')],
    ['bad-request', 'no SETTINGS follow the preface', bytes(PREFACE, frame(PING, 0, 0, '12345678'))],
    ['bad-request', 'there are no frames', bytes(GREETING, 'GET / HTTP/1.1\r\nHost: lab\r\n\r\n')],
    ['hello-timeout', 'nothing is asked for', GREETING],
    ['hello-timeout', 'the preface stops', bytes(PREFACE.slice(0, 16))],
  ];
  for (const [reason, when, says] of ends) {
    test(`with ${reason} when ${when}`, async () => {
      const { address, end, since } = await visit(gateway.port, says);
      assert.equal(end, 'FIN');
      assert.equal((await outerLine({ address, since })).reason, reason);
    });
  }

  test('with client-gone when the client leaves without a request', async () => {
    using client = await connectClient(gateway.port);
    client.send(GREETING);
    await client.receives(9);
    client.finish();
    assert.equal(await client.untilEnd(), 'FIN');
    assert.equal((await outerLine(client)).reason, 'client-gone');
  });

  test('with client-reset when the client resets it', async () => {
    using client = await connectClient(gateway.port);
    client.send(GREETING, connectFrame(1, 'lab:443'));
    await client.receives('api\n');
    client.reset();
    assert.equal((await outerLine(client)).reason, 'client-reset');
    assert.equal((await streamLine(client)).reason, 'client-reset');
  });

  test('with not-recognized if no listener has agents and no route needs HTTP', async () => {
    await using bare = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
clusters: [{ name: lab, api: { hosts: [lab.test], backends: ["${api.text}"] } }]
`,
    });
    const { received, end, address, since } = await visit(bare.port, GREETING);
    assert.deepEqual([received.length, end], [0, 'FIN']);
    assert.equal((await lineOf(bare, { address, since })).reason, 'not-recognized');
  });
});

describe('what the operator does', () => {
  const config = (timeouts: string, allow: string) => `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
timeouts: { ${timeouts} }
clusters:
  - { name: silent, api: { backends: ["${silent.text}"] } }
  - { name: narrow, allow: [${allow}], api: { backends: ["${silent.text}"] } }
`;

  test('an edit and the admin API end a stream, and no other', async () => {
    await using own = await startCauseway({ config: config('drain: 1h', '127.0.0.0/8') });
    using client = await H2Client.connect(own.port);
    const [stream, served] = await tunnel(client);
    const [narrow, servedNarrow] = await tunnel(client, 'narrow');
    await own.write(config('drain: 1h', '10.0.0.0/8'));
    assert.equal(await narrow.closes(), NGHTTP2_CONNECT_ERROR);
    assert.equal(await servedNarrow.untilEnd(), 'RST');
    served.send('still here');
    await stream.receives('still here');

    // A stream whose backend has ended is idle both ways, and must end too.
    served.finish();
    await stream.ends();
    const open = await openConnections(own);
    assert.deepEqual(open.map(one => one.protocol).toSorted(), ['connect', 'h2']);
    const { id } = open.find(one => one.protocol === 'connect') as { id: string };
    const headers = { 'Content-Type': 'application/json' };
    await fetch(`${own.admin}/api/v1/connections/${id}`, { method: 'DELETE', headers });
    assert.equal(await stream.closes(), NGHTTP2_CONNECT_ERROR);
    await until('both lines', () => own.connections().length === 2);
    const reasons = own.connections().map(line => [line.cluster, line.reason]);
    assert.deepEqual(reasons, [
      ['narrow', 'revoked'],
      ['silent', 'revoked'],
    ]);
    client.session.close();
    assert.equal((await outerLine(client, own)).reason, 'done');
    assert.equal(await own.metric('causeway_connections_total', { cluster: 'silent', reason: 'revoked' }), 1);
    assert.equal(await own.metric('causeway_connections_total', { cluster: '', reason: 'done' }), 1);
    assert.equal(await own.metric('causeway_connections_active'), 0);
  });

  test('a drain sends GOAWAY, and open streams may finish', async () => {
    await using own = await startCauseway({ config: config('drain: 1h', '127.0.0.0/8') });
    using client = await H2Client.connect(own.port);
    using idle = await H2Client.connect(own.port);
    const [before] = await tunnel(idle);
    before.stream.destroy();
    const [stream, served] = await tunnel(client);
    own.program.signal('SIGTERM');
    await until('GOAWAY', () => client.goaways.length === 2);
    assert.deepEqual(client.goaways, [
      [0, 2 ** 31 - 1],
      [0, stream.stream.id],
    ]);
    await until('the idle one to close', () => idle.session.destroyed);
    assert.equal((await outerLine(idle, own)).reason, 'done');
    stream.stream.write('still here');
    await served.receives('still here');
    served.send('here too');
    await stream.receives('here too');
    assert.equal(own.program.exit(), undefined);
    stream.stream.end();
    served.finish();
    assert.equal(await stream.closes(), 0);
    assert.deepEqual(await own.program.ended, { code: 0, signal: null });
    assert.equal((await outerLine(client, own)).reason, 'done');
  });

  test('streams that are open after the drain are ended', async () => {
    await using own = await startCauseway({ config: config('drain: 500ms', '127.0.0.0/8') });
    using client = await H2Client.connect(own.port);
    const [stream, served] = await tunnel(client);
    own.program.signal('SIGTERM');
    await stream.closes();
    assert.equal(await served.untilEnd(), 'FIN');
    assert.deepEqual(await own.program.ended, { code: 0, signal: null });
    assert.deepEqual(
      own.connections().map(line => line.reason),
      ['drained', 'drained'],
    );
  });
});

/** Echoes at the pace of the reader. */
class Echo implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
    server.on('connection', socket => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
      socket.on('error', () => {});
      socket.pipe(socket);
    });
  }

  static async start(): Promise<Echo> {
    const server = createServer({ allowHalfOpen: true });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Echo(server, (server.address() as { port: number }).port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
