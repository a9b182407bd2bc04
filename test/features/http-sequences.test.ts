// Sequences of requests on one connection: refused, last, upgrade, CONNECT, with and without bodies, half a head,
// in any order and split anywhere. Each response matches its request, at most one is a refusal and it is the last, and
// nothing after it is served, counted or logged. A neighbour on the same thread gets all its responses.
// For a longer run: HTTP_SEQUENCES=100000 HTTP_SEQUENCES_SEED=7.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import * as fc from 'fast-check';
import { assertAlive, HttpBackend, HttpClient, sharedGateway, sharedStack, untilIdle } from './http-given.ts';
import { anySequence, bytesOf, type Came, judge, piecesOf, type Sequence } from './http-sequence.ts';

const SEQUENCES = Number(process.env.HTTP_SEQUENCES ?? 1500);
const SEED = Number(process.env.HTTP_SEQUENCES_SEED ?? 1);
const AT_ONCE = 25;
const NEIGHBOURS = 4;

const stack = sharedStack();
const backend = stack.use(
  await HttpBackend.start('lab', {
    on: {
      '/slow': (asked, response) => setTimeout(() => response.end(asked.url), 2),
      '/large': (asked, response) => response.end(`${asked.url} ${'x'.repeat(150_000)}`),
      '/early': (asked, response) => response.end(asked.url),
    },
    upgrade: (_, socket, head) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n');
      socket.write(head);
      socket.pipe(socket);
    },
  }),
);
const other = stack.use(await HttpBackend.start('other'));
const { gateway, client } = await sharedGateway(
  stack,
  `
listen: ["127.0.0.1:0"]
workers: 1
timeouts: { hello: 60s }
clusters:
  - { name: lab, apps: { hosts: [lab.test], http: ["${backend.text}"] } }
  - { name: closed, allow: [192.0.2.0/24], apps: { hosts: [closed.test], http: ["${backend.text}"] } }
  - { name: other, apps: { hosts: [other.test], http: ["${other.text}"] } }
`,
);

let sequences = 0;
/** Expected count of responses, by status. */
const counted = new Map<number, number>();

test(`sequences of requests: ${SEQUENCES}, seed ${SEED}`, {
  timeout: 300_000 + SEQUENCES * 100,
}, async () => {
  let isOver = false;
  const neighbours = Array.from({ length: NEIGHBOURS }, () => neighbour(() => isOver));
  try {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anySequence, { minLength: 1, maxLength: AT_ONCE, size: 'max' }),
        async batch => {
          for (const came of await Promise.all(batch.map(play))) count(came);
          assertAlive(gateway);
        },
      ),
      // A batch has AT_ONCE / 2 sequences.
      {
        numRuns: Math.ceil((2 * SEQUENCES) / AT_ONCE),
        seed: SEED,
        endOnFailure: process.env.CI !== undefined,
      },
    );
  } finally {
    isOver = true;
  }
  const visits = await Promise.all(neighbours);
  for (const visit of visits) assert.ok(visit > 0);
  assert.ok(sequences > SEQUENCES / 2, `${sequences} sequences`);
});

test('each request is counted once, with its status, and nothing is left behind', async () => {
  await untilIdle(gateway);
  for (const [code, count] of counted) {
    const labels = { code: String(code), ...(code < 300 && { cluster: 'lab' }) };
    assert.equal(await gateway.metric('causeway_requests_total', labels), count, labels.code);
  }
  const { counts } = (await gateway.status()) as { counts: { connections: number } };
  assert.equal(counts.connections, 0);
});

/** Sends the sequence and FIN, and receives everything. */
async function play(sequence: Sequence): Promise<Came> {
  const number = sequences++;
  using visitor = await client();
  const { peer } = visitor;
  peer.socket.setNoDelay(true);
  for (const [index, piece] of piecesOf(sequence, bytesOf(sequence, number)).entries()) {
    const pause = sequence.pauses[index % sequence.pauses.length];
    if (index > 0 && pause > 0) await delay(pause);
    peer.send(piece);
  }
  peer.finish();
  assert.equal(await peer.untilEnd(), 'FIN', JSON.stringify(sequence));
  const came = judge(sequence, number, peer.received());
  const paths = backend.asked
    .filter(one => one.includes(`/${number}/`))
    .map(one => /\/\d+\/\d+$/.exec(one)?.[0]);
  assert.deepEqual(
    paths.filter(path => path !== came.begun),
    came.served,
    'what reached the backend',
  );
  return came;
}

function count({ statuses }: Came): void {
  for (const status of statuses) counted.set(status, (counted.get(status) ?? 0) + 1);
}

/** Sends requests until the end; each response must be its own. */
async function neighbour(isOver: () => boolean): Promise<number> {
  let visits = 0;
  while (!isOver()) {
    using visitor = await HttpClient.connect(gateway.port);
    for (let turn = 0; turn < 10 && !isOver(); turn++) {
      const path = `/${visits++}`;
      const echo = await visitor.echo('other.test', path);
      assert.deepEqual([echo.backend, echo.url], ['other', path]);
    }
  }
  return visits;
}
