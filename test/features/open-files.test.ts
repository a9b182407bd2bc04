// A small open-file limit: clients cannot take the descriptors that the admin listener and health checks need; a
// connection without one is over-limit, in every protocol, no thread dies, and `check` and `run` warn of a bad limit.

import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { ask } from './ask-admin.ts';
import { supports } from './engine.ts';
import { alert, Backend, connectClient, hello, lineOf, type Peer, servedBy, until } from './given.ts';
import { H2Client } from './h2-client.ts';
import { HttpBackend, HttpClient } from './http-given.ts';

const LIMIT = 256;
/** An eighth of it; see open-files.ts. */
const ROOM = 32;
/** So many threads that descriptors run out before connections do. */
const MANY = 10;
/** More than any protocol has room for. */
const CROWD = 200;

const stack = new AsyncDisposableStack();
let dir: TempDir;
let limited: string;
let plain: Backend;
let http: HttpBackend;

before(async () => {
  dir = stack.use(await tempDir());
  plain = stack.use(await Backend.start({ name: 'backend' }));
  http = stack.use(await HttpBackend.start('http'));
  limited = dir.file('causeway');
  await writeFile(limited, `#!/bin/sh\nulimit -n ${LIMIT}\nexec '${causewayBin}' "$@"\n`);
  await chmod(limited, 0o755);
});

after(() => stack.disposeAsync());

async function start(more = '', workers = 2): Promise<Causeway> {
  return startCauseway({
    command: limited,
    config: `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
workers: ${workers}
limits: { connections: 1000, pendingPerSource: off }
${more}
clusters:
  - name: a
    api: { hosts: [a.test], backends: ["${plain.text}"], health: { check: tcp, every: 200ms } }
    apps: { hosts: [web.test], http: ["${http.text}"] }
`,
  });
}

/** Polls the admin listener, with a new connection each time, until disposed; asserts that it always answered. */
function watchAdmin(gateway: Causeway): AsyncDisposable {
  const over = new AbortController();
  const watching = (async () => {
    for (;;) {
      for (const path of ['/healthz', '/readyz', '/metrics']) {
        const { status } = await ask(gateway, path);
        assert.equal(status, 200, path);
      }
      if (over.signal.aborted) return;
      await delay(10);
    }
  })();
  watching.catch(() => {});
  return {
    async [Symbol.asyncDispose]() {
      over.abort();
      await watching;
    },
  };
}

/** Counts ended connections by reason, and asserts that no thread died. */
function reasons(gateway: Causeway): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { reason } of gateway.connections()) counts[String(reason)] = (counts[String(reason)] ?? 0) + 1;
  assert.ok(!gateway.lines().some(({ msg }) => msg === 'thread died'));
  return counts;
}

async function allOpen(gateway: Causeway, count: number): Promise<void> {
  await until(`${count} open connections`, async () => {
    const { counts } = (await gateway.status()) as { counts: { connections: number } };
    return counts.connections === count;
  });
}

function crowd<T>(each: (index: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: CROWD }, (_, index) => each(index)));
}

test('tunnels take all descriptors: others are over-limit, and the admin listener answers', async () => {
  await using gateway = await start();
  await using _ = watchAdmin(gateway);
  for (let round = 0; round < 3; round++) {
    const clients = await crowd(async () => {
      const client = await connectClient(gateway.port);
      client.send(hello('a.test'));
      await client.receivesOrEnds(1);
      return client;
    });
    const served = clients.filter(client => client.received().includes('backend'));
    const refused = clients.filter(client => !served.includes(client));
    assert.ok(served.length > ROOM / 2 && served.length <= ROOM, `${served.length} of ${CROWD} were served`);
    for (const client of refused) {
      assert.ok(client.received().length === 0 || client.received().equals(alert(80)));
      assert.equal((await lineOf(gateway, client)).reason, 'over-limit');
    }
    for (const client of clients) client[Symbol.dispose]();
    await allOpen(gateway, 0);
  }
  assert.deepEqual(Object.keys(reasons(gateway)).toSorted(), ['done', 'over-limit']);
  assert.equal(await servedBy(gateway.port, hello('a.test')), 'backend');
});

test('descriptors run out before connections do: others are over-limit, and the admin listener answers', async () => {
  await using gateway = await start('', MANY);
  await using _ = watchAdmin(gateway);
  for (let round = 0; round < 3; round++) {
    const tunnels = Array.from({ length: CROWD / 2 }, async () => {
      const client = await connectClient(gateway.port);
      client.send(hello('a.test'));
      await client.receivesOrEnds(1);
      const heard = client.received();
      assert.ok(
        heard.length === 0 || heard.equals(alert(80)) || heard.includes('backend'),
        heard.toString('hex'),
      );
      return client;
    });
    const requests = Array.from({ length: CROWD / 2 }, async (_, index) => {
      const client = await HttpClient.connect(gateway.port);
      client.ask('web.test', `/${index}`);
      const status = (await client.answer().catch(() => undefined))?.status;
      assert.ok(status === undefined || status === 200 || status === 503, `${status}`);
      return client;
    });
    for (const client of await Promise.all([...tunnels, ...requests])) client[Symbol.dispose]();
    await allOpen(gateway, 0);
  }
  assert.deepEqual(Object.keys(reasons(gateway)).toSorted(), ['done', 'over-limit']);
  assert.equal(await servedBy(gateway.port, hello('a.test')), 'backend');
});

test('HTTP connections take all descriptors: others get 503 or nothing, and are over-limit', async () => {
  await using gateway = await start();
  await using _ = watchAdmin(gateway);
  for (let round = 0; round < 3; round++) {
    const clients = await crowd(async index => {
      const client = await HttpClient.connect(gateway.port);
      client.ask('web.test', `/${index}`);
      const answer = await client.answer().catch(() => undefined);
      assert.ok(answer === undefined || answer.status === 200 || answer.status === 503, `${answer?.status}`);
      return { client, isServed: answer?.status === 200 };
    });
    const served = clients.filter(({ isServed }) => isServed).length;
    // A request takes up to five descriptors, so the order of events decides how many requests get all of theirs:
    // 13 as a rule, none on a busy machine.
    assert.ok(served < CROWD - 20, `${served} of ${CROWD} were served`);
    for (const { client } of clients) client[Symbol.dispose]();
    await allOpen(gateway, 0);
  }
  assert.deepEqual(Object.keys(reasons(gateway)).toSorted(), ['done', 'over-limit']);
  using client = await HttpClient.connect(gateway.port);
  await until('room for HTTP', async () => (await client.get('web.test')).status === 200);
});

if (supports('connect'))
  test('HTTP/2 streams take all descriptors: others get 503', async () => {
    await using gateway = await start();
    await using _ = watchAdmin(gateway);
    using client = await H2Client.connect(gateway.port);
    const statuses = await crowd(() => client.open('a:443').status());
    const served = statuses.filter(status => status === 200).length;
    assert.ok(served > 10 && served < CROWD, `${served} of ${CROWD} were served`);
    assert.deepEqual(new Set(statuses), new Set([200, 503]));
    client[Symbol.dispose]();
    await allOpen(gateway, 0);
    for (const reason of Object.keys(reasons(gateway)))
      assert.ok(['done', 'over-limit', 'client-reset', 'client-gone'].includes(reason), reason);
  });

if (supports('signatures'))
  test('tunnels of agents take all descriptors: others are over-limit', {
    skip: missingPrograms('openssl'),
  }, async () => {
    const { readFile } = await import('node:fs/promises');
    const { connect } = await import('node:tls');
    const { certFile, keyFile } = await certificateFor('t.test');
    const ca = await readFile((await authority()).certFile);
    await writeFile(dir.file('secret'), 'a secret for tests, of at least 32 bytes');
    await using gateway = await start(`identity: { secretFile: ${dir.file('secret')} }
tunnel: { hosts: [t.test], certificates: [{ certFile: ${certFile}, keyFile: ${keyFile} }] }`);
    await using _ = watchAdmin(gateway);
    const sockets = await crowd(
      () =>
        new Promise<ReturnType<typeof connect>>(resolve => {
          const place = { host: '127.0.0.1', port: gateway.port, servername: 't.test' };
          const socket = connect({ ...place, ca, ALPNProtocols: ['causeway/1'] });
          socket.on('error', () => {});
          for (const event of ['secureConnect', 'close']) socket.once(event, () => resolve(socket));
        }),
    );
    await until('the refused ones', () => (reasons(gateway)['over-limit'] ?? 0) > 20);
    for (const socket of sockets) socket.destroy();
    await allOpen(gateway, 0);
    for (const reason of Object.keys(reasons(gateway)))
      assert.ok(
        ['over-limit', 'client-gone', 'client-reset', 'no-data', 'bad-signature', 'done'].includes(reason),
        reason,
      );
    assert.equal(await servedBy(gateway.port, hello('a.test')), 'backend');
  });

test('a burst of silent clients takes all descriptors: the admin listener answers, and all are released', async () => {
  await using gateway = await start('timeouts: { hello: 1m }');
  await using _ = watchAdmin(gateway);
  const clients: Peer[] = await crowd(() => connectClient(gateway.port));
  const open = () => clients.filter(client => client.end() === undefined).length;
  await until('the surplus to be closed', () => open() <= ROOM);
  assert.ok(open() > ROOM / 2, `${open()} are open`);
  for (const client of clients) client[Symbol.dispose]();
  await allOpen(gateway, 0);
  assert.equal(await servedBy(gateway.port, hello('a.test')), 'backend');
});

describe('a bad limit', () => {
  const config = (limits: string) => `listen: ["127.0.0.1:0"]\n${limits}clusters: []\n`;

  test('check warns of limits.connections, with both numbers and the position', async () => {
    const file = dir.file('too-many.yaml');
    await writeFile(file, config('limits:\n  connections: 1000\n'));
    const { code, stderr } = await run(limited, ['check', '-c', file]);
    assert.equal(code, 0);
    assert.match(
      stderr,
      /too-many\.yaml:3:16: limits\.connections: 1000 connections .* 256, .* set at most 32\n/,
    );
  });

  test('check warns of an open-file limit with little room', async () => {
    const file = dir.file('few.yaml');
    await writeFile(file, config(''));
    const { code, stderr } = await run(limited, ['check', '-c', file]);
    assert.equal(code, 0);
    assert.match(
      stderr,
      /few\.yaml:(?:1:1:)? limits\.connections: the open-file limit of this process, 256, has room for 32 connections/,
    );
    const usual = await run(causewayBin, ['check', '-c', file]);
    assert.doesNotMatch(usual.stderr, /open-file limit/);
  });

  test('run warns of it, at the start and after an edit', async () => {
    await using gateway = await start();
    const line = await gateway.line(({ msg }) => msg === 'limits.connections does not fit');
    assert.deepEqual([line.level, line.connections, line.openFiles], ['warn', 1000, LIMIT]);
    await gateway.write(config('limits: { connections: 999 }\n'));
    await gateway.line(({ connections }) => connections === 999);
  });
});
