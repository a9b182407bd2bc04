import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { type KeptConnection, KeptConnections, type ResponseReceiver } from './kept-connections.ts';

const SLOT = 7;
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi';

/** A receiver, and the calls to it as text, in order. */
interface Recording {
  readonly receiver: ResponseReceiver;
  readonly calls: string[];
  readonly over: Promise<void>;
}

function recordCalls(takes = () => true): Recording {
  const calls: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const text = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString('latin1');
  const receiver: ResponseReceiver = {
    informational: ({ status }) => calls.push(String(status)),
    answered: ({ status }) => calls.push(String(status)),
    waiting: () => calls.push('waiting'),
    data(bytes) {
      calls.push(text(bytes));
      return takes();
    },
    ended(last, trailers) {
      calls.push(text(last), ...trailers, 'ended');
      resolve();
    },
    failed() {
      calls.push('failed');
      resolve();
    },
    onFault(error) {
      calls.push(String(error));
      resolve();
    },
  };
  return { receiver, calls, over: promise };
}

/** A backend; each test has both ends of its connections. */
async function backend() {
  const accepted: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, socket => {
    socket.on('error', () => {});
    socket.resume();
    accepted.push(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  let now = 0;
  const kept = new KeptConnections(
    error => assert.fail(error as Error),
    () => now,
  );
  return {
    kept,
    pass(ms: number) {
      now += ms;
      kept.sweep();
    },
    async open(): Promise<readonly [KeptConnection, Socket]> {
      const came = once(server, 'connection');
      const { port } = server.address() as AddressInfo;
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      await Promise.all([came, once(socket, 'connect')]);
      return [kept.add(SLOT, socket), accepted[accepted.length - 1]];
    },
    async [Symbol.asyncDispose]() {
      kept.destroy();
      for (const socket of accepted) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

async function answer(text: string, method = 'GET', end = false): Promise<readonly string[]> {
  await using given = await backend();
  const [connection, peer] = await given.open();
  const recording = recordCalls();
  connection.ask(method, 'x', recording.receiver);
  if (end) peer.end(text, 'latin1');
  else peer.write(text, 'latin1');
  await recording.over;
  return [...recording.calls, given.kept.take(SLOT) === undefined ? 'gone' : 'kept'];
}

test('KeptConnections reuses the most recently used connection first', async () => {
  await using given = await backend();
  const [first, firstPeer] = await given.open();
  const [second, secondPeer] = await given.open();
  for (const [connection, peer] of [
    [first, firstPeer],
    [second, secondPeer],
  ] as const) {
    assert.equal(connection.isReused, false);
    const recording = recordCalls();
    connection.ask('GET', 'x', recording.receiver);
    peer.write(OK);
    await recording.over;
    assert.deepEqual(recording.calls, ['200', 'hi', 'ended']);
  }
  assert.equal(given.kept.take(SLOT + 1), undefined);
  assert.equal(given.kept.take(SLOT), second);
  assert.equal(given.kept.take(SLOT), first);
  assert.equal(given.kept.take(SLOT), undefined);
  assert.equal(first.isReused, true);
});

test('KeptConnections closes only connections that were idle for 4 s', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  const closed = once(peer, 'end');
  for (let request = 0; request < 2; request++) {
    const recording = recordCalls();
    connection.ask('GET', 'x', recording.receiver);
    given.pass(10_000);
    peer.write(OK);
    await recording.over;
    assert.deepEqual(recording.calls, ['200', 'hi', 'ended']);
    given.pass(3999);
    assert.equal(given.kept.take(SLOT), connection);
  }
  const recording = recordCalls();
  connection.ask('GET', 'x', recording.receiver);
  peer.write(OK);
  await recording.over;
  given.pass(4000);
  await closed;
  assert.equal(given.kept.take(SLOT), undefined);
});

for (const [what, method, text, wanted] of [
  ['an empty body', 'GET', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', ['200', '', 'ended', 'kept']],
  ['HEAD', 'HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n', ['200', '', 'ended', 'kept']],
  [
    'chunks and trailers',
    'GET',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: 1\r\n\r\n',
    ['200', 'hi', '', 'A', '1', 'ended', 'kept'],
  ],
  ['100 before it', 'GET', `HTTP/1.1 100 Continue\r\n\r\n${OK}`, ['100', '200', 'hi', 'ended', 'kept']],
  [
    '103 before it',
    'GET',
    `HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${OK}`,
    ['103', '200', 'hi', 'ended', 'kept'],
  ],
  [
    'Connection: close',
    'GET',
    OK.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
    ['200', 'hi', 'ended', 'gone'],
  ],
  ['more bytes than Content-Length', 'GET', `${OK}HTTP/1.1 200`, ['200', 'hi', 'ended', 'gone']],
  ['an upgrade without a request for it', 'GET', 'HTTP/1.1 101 Switching\r\n\r\n', ['failed', 'gone']],
  ['another protocol', 'GET', 'SSH-2.0-x\r\n\r\n', ['failed', 'gone']],
  [
    'two framings',
    'GET',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n',
    ['failed', 'gone'],
  ],
  [
    'bad chunks',
    'GET',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nx',
    ['200', 'hi', 'failed', 'gone'],
  ],
] as const) {
  test(`KeptConnection reads ${what}`, async () => {
    assert.deepEqual(await answer(text, method), wanted);
  });
}

for (const [what, text, wanted] of [
  ['a body without a length until FIN', 'HTTP/1.1 200 OK\r\n\r\nhi', ['200', 'hi', '', 'ended', 'gone']],
  ['FIN in a body', OK.slice(0, -1), ['200', 'h', 'failed', 'gone']],
  ['FIN in a head', OK.slice(0, 20), ['failed', 'gone']],
  ['FIN instead of an answer', '', ['failed', 'gone']],
] as const) {
  test(`KeptConnection reads ${what}`, async () => {
    assert.deepEqual(await answer(text, 'GET', true), wanted);
  });
}

test('KeptConnection assembles a head that comes byte by byte', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  peer.setNoDelay(true);
  const recording = recordCalls();
  connection.ask('GET', 'x', recording.receiver);
  for (const byte of OK) {
    peer.write(byte);
    await new Promise(resolve => setImmediate(resolve));
  }
  await recording.over;
  assert.equal(recording.calls.join(''), '200waitinghiended');
});

test('KeptConnection closes when bytes come without a request', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  const recording = recordCalls();
  connection.ask('GET', 'x', recording.receiver);
  peer.write(OK);
  await recording.over;
  const closed = once(peer, 'close');
  peer.write(OK);
  peer.end();
  await closed;
  assert.equal(given.kept.take(SLOT), undefined);
});

test('KeptConnection pauses while its receiver takes no more', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  const recording = recordCalls(() => false);
  connection.ask('GET', 'x', recording.receiver);
  const large = 'a'.repeat(8 * 2 ** 20);
  let isOut = false;
  peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${large.length}\r\n\r\n${large}`, () => {
    isOut = true;
  });
  let resumed = 0;
  while (recording.calls.at(-1) !== 'ended') {
    // One piece per resume(), and the backend cannot write all of it.
    const before = recording.calls.length;
    connection.resume(recording.receiver);
    while (recording.calls.length === before) await new Promise(resolve => setImmediate(resolve));
    if (++resumed === 4) assert.equal(isOut, false);
  }
  assert.ok(resumed > 4);
  assert.equal(recording.calls.slice(1, -1).join('').length, large.length);
});

test('KeptConnection.destroy() calls nothing on its receiver', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  const recording = recordCalls();
  connection.ask('GET', 'x', recording.receiver);
  const closed = once(peer, 'end');
  connection.destroy();
  await closed;
  assert.deepEqual(recording.calls, []);
});

for (const where of ['answered', 'data', 'ended'] as const) {
  test(`KeptConnection closes when its receiver throws in ${where}(), and reports the fault to it`, async () => {
    await using given = await backend();
    const [connection, peer] = await given.open();
    const { receiver, calls, over } = recordCalls();
    const throws = () => {
      throw new Error('injected');
    };
    connection.ask('GET', 'x', { ...receiver, [where]: throws });
    const closed = once(peer, 'end');
    peer.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab');
    await new Promise(resolve => setImmediate(resolve));
    if (where === 'ended') peer.write('cd');
    await Promise.all([over, closed]);
    assert.equal(calls.at(-1), 'Error: injected');
    assert.equal(given.kept.take(SLOT), undefined);
  });
}
