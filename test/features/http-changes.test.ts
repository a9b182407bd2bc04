// What ends HTTP connections besides their requests: an edit that revokes them, a drain, and time-outs.
// The tests wait for real time-outs, long enough for a busy machine; so they run side by side.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { ask, changing } from './ask-admin.ts';
import { Backend, isClosed, lineOf, type Peer, until } from './given.ts';
import {
  assertAlive,
  HttpBackend,
  HttpClient,
  request,
  requestLines,
  sharedStack,
  untilIdle,
} from './http-given.ts';

const NEVER = '1h';

const stack = sharedStack();
let asked = 0;

const raw = stack.use(await Backend.start({ silent: true }));
const echo = stack.use(await HttpBackend.start('echo'));

interface Held {
  readonly visitor: HttpClient;
  readonly served: Peer;
}

/** A request at the backend, which does not answer on its own. */
async function hold(gateway: Causeway, host: string, ...lines: readonly string[]): Promise<Held> {
  const visitor = await HttpClient.connect(gateway.port);
  // Not by address: clients of two gateways may have the same one.
  const path = `/${++asked}`;
  visitor.ask(host, path, ...lines);
  const served = await until(`${path} of ${visitor.address} to be served`, () =>
    raw.connections.find(peer => peer.received().includes(`GET ${path} `)),
  );
  return { visitor, served };
}

async function switched(gateway: Causeway, host: string): Promise<Held> {
  const held = await hold(gateway, host, 'Connection: Upgrade', 'Upgrade: x');
  held.served.send(request('HTTP/1.1 101 Switching', 'Connection: Upgrade', 'Upgrade: x'));
  assert.equal((await held.visitor.answer()).status, 101);
  return held;
}

/** During a response. */
async function answering(gateway: Causeway, host: string): Promise<Held> {
  const held = await hold(gateway, host);
  held.served.send('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc');
  await held.visitor.peer.receives('abc');
  return held;
}

/** Idle after a response. */
async function idle(gateway: Causeway, host: string): Promise<HttpClient> {
  const { visitor, served } = await hold(gateway, host);
  served.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok');
  assert.equal((await visitor.answer()).status, 200);
  return visitor;
}

describe('HTTP connections', { concurrency: 4 }, () => {
  describe('revoked', { concurrency: true }, () => {
    const gone = '';
    const tightened = `  - { name: lab, allow: [192.0.2.0/24], apps: { hosts: [lab.test], http: [BACKEND] } }`;
    const narrowed = `  - { name: lab, apps: { hosts: [lab.test], http: { backends: [BACKEND], allow: [192.0.2.0/24] } } }`;
    const moved = `  - { name: lab, apps: { hosts: [lab.test], https: [BACKEND] } }`;
    for (const [what, then, status] of [
      ['a cluster that is gone', gone, 421],
      ['a route that is gone', moved, 421],
      ["a cluster's list that admits others only", tightened, 403],
      ["a route's list that admits others only", narrowed, 403],
    ] as const) {
      test(`${what}: connections to it in any state, and no other`, async () => {
        const config = (lab: string) => `
listen: ["127.0.0.1:0"]
clusters:
  - { name: other, apps: { hosts: [other.test], http: ["${raw.text}"] } }
${lab.replace('BACKEND', `"${raw.text}"`)}
`;
        await using gateway = await startCauseway({
          config: config('  - { name: lab, apps: { hosts: [lab.test], http: [BACKEND] } }'),
        });
        const others = [
          await hold(gateway, 'other.test'),
          await answering(gateway, 'other.test'),
          await switched(gateway, 'other.test'),
        ];
        using spared = await idle(gateway, 'other.test');
        const ended = [
          (await hold(gateway, 'lab.test')).visitor,
          (await answering(gateway, 'lab.test')).visitor,
          (await switched(gateway, 'lab.test')).visitor,
          await idle(gateway, 'lab.test'),
        ];
        await gateway.write(config(then));
        for (const visitor of ended) {
          assert.equal(await visitor.ended(), 'RST');
          const line = await lineOf(gateway, visitor);
          assert.deepEqual([line.reason, line.cluster, line.route], ['revoked', 'lab', 'apps-http']);
          visitor[Symbol.dispose]();
        }
        await gateway.line(({ msg }) => msg === 'applied');
        // As if it had never existed.
        assert.equal((await spared.get('lab.test')).status, status);
        others[0].served.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
        assert.equal((await others[0].visitor.answer()).body.toString(), 'ok');
        others[1].served.send('def');
        assert.equal((await others[1].visitor.answer()).body.toString(), 'abcdef');
        others[2].visitor.send('ping');
        await others[2].served.receives('ping');
        for (const { visitor } of others) visitor.peer.reset();
        await untilIdle(gateway);
        assertAlive(gateway);
      });
    }
  });

  describe('the list of connections', () => {
    test('shows the current bytes of HTTP connections, and DELETE resets one at once', async () => {
      await using gateway = await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
clusters: [{ name: lab, apps: { hosts: [lab.test], http: ["${raw.text}"] } }]
`,
      });
      using quiet = await idle(gateway, 'lab.test');
      const busy = await answering(gateway, 'lab.test');
      const upgraded = await switched(gateway, 'lab.test');
      upgraded.visitor.send('ping');
      await upgraded.served.receives('ping');
      const visitors = [quiet, busy.visitor, upgraded.visitor];
      const entryOf = async ({ address }: HttpClient) =>
        (await ask(gateway, '/api/v1/connections')).json.find(
          ({ peer }: { peer: string }) => peer === address,
        );
      for (const visitor of visitors) {
        const { socket } = visitor.peer;
        await until('its bytes to be there', async () => {
          const entry = await entryOf(visitor);
          return entry.in === socket.bytesWritten && entry.out === socket.bytesRead;
        });
      }
      for (const visitor of visitors) {
        const { id } = await entryOf(visitor);
        const options = { method: 'DELETE', headers: changing };
        assert.equal((await ask(gateway, `/api/v1/connections/${id}`, options)).status, 204);
        assert.equal(await visitor.ended(), 'RST');
        const line = await lineOf(gateway, visitor);
        assert.deepEqual(
          [line.reason, line.cluster, line.in, line.out],
          ['revoked', 'lab', visitor.peer.socket.bytesWritten, visitor.peer.received().length],
        );
      }
      for (const { served } of [busy, upgraded]) await served.untilEnd();
      await untilIdle(gateway);
      assertAlive(gateway);
    });
  });

  test('a client’s reset is noticed in any state and forwarded to the backend', async () => {
    await using gateway = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
clusters: [{ name: lab, apps: { hosts: [lab.test], http: ["${raw.text}"] } }]
`,
    });
    const held = [
      await hold(gateway, 'lab.test'),
      // After an upgrade request that is ignored nothing is read.
      await hold(gateway, 'lab.test', 'Connection: Upgrade', 'Upgrade: h2c'),
      await answering(gateway, 'lab.test'),
      await switched(gateway, 'lab.test'),
    ];
    for (const { visitor } of held) visitor.peer.reset();
    for (const { visitor, served } of held) {
      assert.equal((await lineOf(gateway, visitor)).reason, 'client-reset');
      await served.untilEnd();
    }
    await untilIdle(gateway);
  });

  describe('a drain', { concurrency: true }, () => {
    const start = (drain: string) =>
      startCauseway({
        config: `
listen: ["127.0.0.1:0"]
timeouts: { drain: ${drain} }
clusters: [{ name: lab, apps: { hosts: [lab.test], http: ["${raw.text}"] } }]
`,
      });

    test('closes idle connections at once, and lets responses finish, with Connection: close', async () => {
      await using gateway = await start(NEVER);
      using quiet = await idle(gateway, 'lab.test');
      const waiting = await hold(gateway, 'lab.test');
      const busy = await answering(gateway, 'lab.test');
      const upgraded = await switched(gateway, 'lab.test');
      gateway.program.signal('SIGTERM');
      assert.equal(await quiet.ended(), 'FIN');
      assert.equal((await lineOf(gateway, quiet)).reason, 'done');
      await until('nobody to listen', () => isClosed(gateway.port));
      assert.equal(gateway.program.exit(), undefined);
      waiting.served.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      assert.equal((await waiting.visitor.lastAnswer()).headers.connection, 'close');
      busy.served.send('def');
      assert.equal((await busy.visitor.lastAnswer()).body.toString(), 'abcdef');
      upgraded.visitor.send('still open');
      await upgraded.served.receives('still open');
      upgraded.visitor.peer.finish();
      upgraded.served.finish();
      for (const { visitor } of [waiting, busy, upgraded])
        assert.equal((await lineOf(gateway, visitor)).reason, 'done');
      assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
      // Their log lines were written before the exit.
      await requestLines(gateway, upgraded.visitor, 1);
    });

    test('ends open connections when its time is over', async () => {
      await using gateway = await start('1s');
      const held = [
        await hold(gateway, 'lab.test'),
        await answering(gateway, 'lab.test'),
        await switched(gateway, 'lab.test'),
      ];
      gateway.program.signal('SIGTERM');
      for (const { visitor, served } of held) {
        await Promise.all([visitor.ended(), served.untilEnd()]);
        assert.equal((await lineOf(gateway, visitor)).reason, 'drained');
        await requestLines(gateway, visitor, 1);
      }
      assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
    });
  });

  describe('time-outs', { concurrency: true }, () => {
    test('idle: a connection without traffic ends, in any state', async () => {
      await using gateway = await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
timeouts: { idle: 2s }
clusters: [{ name: lab, apps: { hosts: [lab.test], http: ["${raw.text}"] } }]
`,
      });
      const visitors = [
        await idle(gateway, 'lab.test'),
        (await hold(gateway, 'lab.test')).visitor,
        (await switched(gateway, 'lab.test')).visitor,
      ];
      for (const visitor of visitors) {
        assert.equal(await visitor.ended(), 'FIN');
        const { reason, cluster } = await lineOf(gateway, visitor);
        assert.deepEqual([reason, cluster], ['idle-timeout', 'lab']);
        visitor[Symbol.dispose]();
      }
      await untilIdle(gateway);
    });

    test('idle: a byte in either direction restarts it', async () => {
      await using gateway = await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
timeouts: { idle: 3s }
clusters: [{ name: lab, apps: { hosts: [lab.test], http: ["${raw.text}"] } }]
`,
      });
      const [asking, hearing] = [await switched(gateway, 'lab.test'), await switched(gateway, 'lab.test')];
      for (let heard = 1; heard <= 4; heard++) {
        await until('a second', untilMs(1000));
        asking.visitor.send('.');
        hearing.served.send('.');
        await hearing.visitor.peer.receives('.'.repeat(heard));
      }
      await asking.served.receives('....');
      for (const { visitor } of [asking, hearing]) {
        assert.equal(await visitor.ended(), 'FIN');
        assert.equal((await lineOf(gateway, visitor)).reason, 'idle-timeout');
      }
    });

    test('halfClosed: it starts with the first FIN', async () => {
      await using gateway = await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
timeouts: { halfClosed: 1s }
clusters: [{ name: lab, apps: { hosts: [lab.test], http: ["${raw.text}"] } }]
`,
      });
      const held = [await hold(gateway, 'lab.test'), await switched(gateway, 'lab.test')];
      const finished = await switched(gateway, 'lab.test');
      await until('two seconds', untilMs(2000));
      const begun = performance.now();
      finished.served.finish();
      for (const { visitor } of held) visitor.peer.finish();
      for (const { visitor, served } of held) {
        assert.equal(await visitor.ended(), 'FIN');
        assert.ok(performance.now() - begun > 900);
        await served.untilEnd();
      }
      for (const { visitor } of [...held, finished])
        assert.equal((await lineOf(gateway, visitor)).reason, 'half-closed-timeout');
      await untilIdle(gateway);
    });

    test('hello: it applies to each head, not to a body', async () => {
      await using gateway = await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
timeouts: { hello: 2s }
clusters: [{ name: lab, apps: { hosts: [lab.test], http: ["${echo.text}"] } }]
`,
      });
      const visit = () => HttpClient.connect(gateway.port);
      const slowBody = async () => {
        using visitor = await visit();
        visitor.send(request('POST / HTTP/1.1', 'Host: lab.test', 'Content-Length: 30'));
        await visitor.peer.drip(Buffer.alloc(29, 'x'));
        await until('three seconds', untilMs(3000));
        visitor.send('x');
        assert.equal((await visitor.answer()).status, 200);
      };
      const slowHead = async (first: boolean) => {
        using visitor = await visit();
        if (!first) assert.equal((await visitor.get('lab.test')).status, 200);
        visitor.send('GET / HTTP/1.1\r\nHost: lab');
        const answer = await visitor.lastAnswer();
        assert.equal(answer.status, 408);
        assert.equal((await lineOf(gateway, visitor)).reason, 'hello-timeout');
      };
      const patient = async () => {
        using visitor = await visit();
        for (let i = 0; i < 2; i++) {
          assert.equal((await visitor.get('lab.test')).status, 200);
          await until('three seconds', untilMs(3000));
        }
        assert.equal((await visitor.get('lab.test')).status, 200);
      };
      await Promise.all([slowBody(), slowHead(true), slowHead(false), patient()]);
    });
  });
});

function untilMs(ms: number): () => boolean {
  const begun = performance.now();
  return () => performance.now() - begun > ms;
}
