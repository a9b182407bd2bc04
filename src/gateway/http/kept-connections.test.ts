import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { type KeptConnection, KeptConnections, type ResponseReceiver } from './kept-connections.ts';

const SLOT = 7;
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi';

/** What an asker has heard, as words in order. */
interface Heard {
  readonly receiver: ResponseReceiver;
  readonly words: string[];
  readonly over: Promise<void>;
}

function hear(takes = () => true): Heard {
  const words: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const text = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString('latin1');
  const receiver: ResponseReceiver = {
    informational: ({ status }) => words.push(String(status)),
    answered: ({ status }) => words.push(String(status)),
    waiting: () => words.push('waiting'),
    data(bytes) {
      words.push(text(bytes));
      return takes();
    },
    ended(last, trailers) {
      words.push(text(last), ...trailers, 'ended');
      resolve();
    },
    failed() {
      words.push('failed');
      resolve();
    },
    onFault(error) {
      words.push(String(error));
      resolve();
    },
  };
  return { receiver, words, over: promise };
}

/** A backend of whose connections each test has both ends. */
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
      kept.lookAround();
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
  const heard = hear();
  connection.ask(method, 'x', heard.receiver);
  if (end) peer.end(text, 'latin1');
  else peer.write(text, 'latin1');
  await heard.over;
  return [...heard.words, given.kept.take(SLOT) === undefined ? 'gone' : 'kept'];
}

test('KeptConnections gives the connection to the next request, the one used last first', async () => {
  await using given = await backend();
  const [first, firstPeer] = await given.open();
  const [second, secondPeer] = await given.open();
  for (const [connection, peer] of [
    [first, firstPeer],
    [second, secondPeer],
  ] as const) {
    assert.equal(connection.isReused, false);
    const heard = hear();
    connection.ask('GET', 'x', heard.receiver);
    peer.write(OK);
    await heard.over;
    assert.deepEqual(heard.words, ['200', 'hi', 'ended']);
  }
  assert.equal(given.kept.take(SLOT + 1), undefined);
  assert.equal(given.kept.take(SLOT), second);
  assert.equal(given.kept.take(SLOT), first);
  assert.equal(given.kept.take(SLOT), undefined);
  assert.equal(first.isReused, true);
});

test('KeptConnections closes what has been idle for 4 s, and nothing else', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  const closed = once(peer, 'end');
  for (let request = 0; request < 2; request++) {
    const heard = hear();
    connection.ask('GET', 'x', heard.receiver);
    given.pass(10_000);
    peer.write(OK);
    await heard.over;
    assert.deepEqual(heard.words, ['200', 'hi', 'ended']);
    given.pass(3999);
    assert.equal(given.kept.take(SLOT), connection);
  }
  const heard = hear();
  connection.ask('GET', 'x', heard.receiver);
  peer.write(OK);
  await heard.over;
  given.pass(4000);
  await closed;
  assert.equal(given.kept.take(SLOT), undefined);
});

for (const [what, method, text, wanted] of [
  ['a body of no bytes', 'GET', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', ['200', '', 'ended', 'kept']],
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
  ['a close', 'GET', OK.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'), ['200', 'hi', 'ended', 'gone']],
  ['more bytes than it said', 'GET', `${OK}HTTP/1.1 200`, ['200', 'hi', 'ended', 'gone']],
  ['a switch that nobody asked for', 'GET', 'HTTP/1.1 101 Switching\r\n\r\n', ['failed', 'gone']],
  ['something else', 'GET', 'SSH-2.0-x\r\n\r\n', ['failed', 'gone']],
  [
    'two ways to end',
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
  test(`KeptConnection hears ${what}`, async () => {
    assert.deepEqual(await answer(text, method), wanted);
  });
}

for (const [what, text, wanted] of [
  ['the end of a body without a length', 'HTTP/1.1 200 OK\r\n\r\nhi', ['200', 'hi', '', 'ended', 'gone']],
  ['FIN in a body', OK.slice(0, -1), ['200', 'h', 'failed', 'gone']],
  ['FIN in a head', OK.slice(0, 20), ['failed', 'gone']],
  ['FIN instead of an answer', '', ['failed', 'gone']],
] as const) {
  test(`KeptConnection takes a FIN for ${what}`, async () => {
    assert.deepEqual(await answer(text, 'GET', true), wanted);
  });
}

test('KeptConnection puts a head together that comes byte by byte', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  peer.setNoDelay(true);
  const heard = hear();
  connection.ask('GET', 'x', heard.receiver);
  for (const byte of OK) {
    peer.write(byte);
    await new Promise(resolve => setImmediate(resolve));
  }
  await heard.over;
  assert.equal(heard.words.join(''), '200waitinghiended');
});

test('KeptConnection closes when bytes come that nobody asked for', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  const heard = hear();
  connection.ask('GET', 'x', heard.receiver);
  peer.write(OK);
  await heard.over;
  const closed = once(peer, 'close');
  peer.write(OK);
  peer.end();
  await closed;
  assert.equal(given.kept.take(SLOT), undefined);
});

test('KeptConnection waits for an asker that takes no more', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  const heard = hear(() => false);
  connection.ask('GET', 'x', heard.receiver);
  const large = 'a'.repeat(8 * 2 ** 20);
  let isOut = false;
  peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${large.length}\r\n\r\n${large}`, () => {
    isOut = true;
  });
  let resumed = 0;
  while (heard.words.at(-1) !== 'ended') {
    // One piece for each time that it is asked for, and the backend cannot be rid of all of it.
    const before = heard.words.length;
    connection.resume(heard.receiver);
    while (heard.words.length === before) await new Promise(resolve => setImmediate(resolve));
    if (++resumed === 4) assert.equal(isOut, false);
  }
  assert.ok(resumed > 4);
  assert.equal(heard.words.slice(1, -1).join('').length, large.length);
});

test('KeptConnection that is destroyed tells its asker nothing', async () => {
  await using given = await backend();
  const [connection, peer] = await given.open();
  const heard = hear();
  connection.ask('GET', 'x', heard.receiver);
  const closed = once(peer, 'end');
  connection.destroy();
  await closed;
  assert.deepEqual(heard.words, []);
});

for (const where of ['answered', 'data', 'ended'] as const) {
  test(`KeptConnection closes when its asker throws in ${where}(), who is told, and nobody takes it again`, async () => {
    await using given = await backend();
    const [connection, peer] = await given.open();
    const { receiver, words, over } = hear();
    const throws = () => {
      throw new Error('injected');
    };
    connection.ask('GET', 'x', { ...receiver, [where]: throws });
    const closed = once(peer, 'end');
    peer.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab');
    await new Promise(resolve => setImmediate(resolve));
    if (where === 'ended') peer.write('cd');
    await Promise.all([over, closed]);
    assert.equal(words.at(-1), 'Error: injected');
    assert.equal(given.kept.take(SLOT), undefined);
  });
}
