// The admin API: clusters, connections and ending one, explain, and drain.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { ask, changing } from './ask-admin.ts';
import { supports } from './engine.ts';
import {
  Backend,
  connectClient,
  hello,
  lineOf,
  type Peer,
  proxyV2,
  servedBy,
  until,
  visit,
} from './given.ts';

let backend: Backend;
let gateway: Causeway;
const stack = new AsyncDisposableStack();

before(async () => {
  backend = stack.use(await Backend.start({ name: 'backend' }));
  gateway = stack.use(
    await startCauseway({
      config: `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.2/32] }]
workers: 2
clusters:
  - name: lab
    id: lab-id
    api: { hosts: [api.lab.test], backends: ["${backend.text}", "127.0.0.1:9"], balance: round-robin }
    konnectivity: { hosts: [konnectivity.lab.test], backends: [] }
  - name: closed
    allow: []
    api: { hosts: [closed.test], backends: ["${backend.text}"] }
`,
    }),
  );
});

after(() => stack.disposeAsync());

async function tunnel(said: Uint8Array, from?: string): Promise<Peer> {
  const client = await connectClient(gateway.port, from === undefined ? {} : { from });
  client.send(said);
  await client.receives('backend\n');
  return client;
}

describe('clusters', () => {
  test('have exactly these keys', async () => {
    const { status, json } = await ask(gateway, '/api/v1/clusters');
    assert.equal(status, 200);
    const nothing = { bytesIn: 0, bytesOut: 0, reasons: {} };
    const none = { connections: 0, ...nothing, recent: { opened: 0, ...nothing } };
    assert.deepEqual(json, [
      {
        name: 'lab',
        id: 'lab-id',
        source: 'file',
        object: null,
        routes: [
          {
            kind: 'api',
            hosts: ['api.lab.test'],
            balance: 'round-robin',
            backends: [
              { address: backend.text, up: null, health: 'none', connections: 0 },
              { address: '127.0.0.1:9', up: null, health: 'none', connections: 0 },
            ],
            ...none,
          },
          {
            kind: 'konnectivity',
            hosts: ['konnectivity.lab.test'],
            balance: 'round-robin',
            backends: [],
            ...none,
          },
        ],
        findings: [],
      },
      {
        name: 'closed',
        id: null,
        source: 'file',
        object: null,
        routes: [
          {
            kind: 'api',
            hosts: ['closed.test'],
            balance: 'source',
            backends: [{ address: backend.text, up: null, health: 'none', connections: 0 }],
            ...none,
          },
        ],
        findings: [],
      },
    ]);
  });

  test('count open connections, bytes and close reasons; status has the sum', async () => {
    using client = await tunnel(hello('api.lab.test'));
    const api = async () => (await ask(gateway, '/api/v1/clusters/lab')).json.routes[0];
    const open = await api();
    assert.equal(open.connections, 1);
    assert.deepEqual(
      open.backends.map(({ connections }: { connections: number }) => connections),
      [1, 0],
    );
    client.finish();
    await client.untilEnd();
    await visit(gateway.port, hello('closed.test'));
    await visit(gateway.port, hello('unknown.test'));
    await until('the end to be counted', async () => (await api()).connections === 0);
    const ended = await api();
    assert.deepEqual(ended.reasons, { done: 1 });
    assert.deepEqual([ended.bytesIn, ended.bytesOut], [hello('api.lab.test').length, 'backend\n'.length]);
    const closed = (await ask(gateway, '/api/v1/clusters/closed')).json.routes[0];
    assert.deepEqual(closed.reasons, { 'not-allowed': 1 });
    const { traffic } = (await ask(gateway, '/api/v1/status')).json;
    assert.equal(traffic.connections, 3);
    assert.deepEqual(traffic.reasons, { done: 1, 'not-allowed': 1, 'unknown-host': 1 });
    assert.ok(traffic.bytesIn > ended.bytesIn && traffic.bytesOut > ended.bytesOut);
    const { reasons, bytesIn, bytesOut } = ended;
    assert.deepEqual(ended.recent, { opened: 1, bytesIn, bytesOut, reasons });
    assert.deepEqual([traffic.recent.opened, traffic.recent.reasons], [3, traffic.reasons]);
    assert.deepEqual(traffic.unrouted.reasons, { 'unknown-host': 1 });
    assert.deepEqual([traffic.unrouted.connections, traffic.unrouted.recent.opened], [1, 1]);
  });

  test('an unknown one: 404 with a message', async () => {
    const { status, json } = await ask(gateway, '/api/v1/clusters/nowhere');
    assert.equal(status, 404);
    assert.match(json.error, /no cluster 'nowhere'/);
    assert.equal((await ask(gateway, '/api/v1/clusters/%2e%2e')).status, 404);
  });
});

describe('connections', () => {
  test('are listed with the keys of the log and an id, newest first', async () => {
    using first = await tunnel(hello('api.lab.test'));
    const header = proxyV2({ source: '203.0.113.7', id: 'lab-id' });
    using second = await tunnel(Buffer.concat([header, hello('')]), '127.0.0.2');
    using silent = await connectClient(gateway.port);
    const list = await until('three of them', async () => {
      const { json } = await ask(gateway, '/api/v1/connections');
      return json.length === 3 && json;
    });
    assert.deepEqual(
      list.map(({ peer }: { peer: string }) => peer),
      [silent.address, second.address, first.address],
    );
    const [, { id, ms, dialMs, ...rest }, { host, origin }] = list;
    assert.match(id, /^[0-9a-z-]+$/);
    assert.ok(ms > 0 && dialMs >= 0);
    assert.deepEqual(rest, {
      listener: '127.0.0.1:0',
      peer: second.address,
      client: second.address,
      origin: supports('openDetails') ? '203.0.113.7:40000' : null,
      protocol: 'tls',
      host: null,
      clusterId: supports('openDetails') ? 'lab-id' : null,
      cluster: 'lab',
      route: 'api',
      backend: backend.text,
      error: null,
      in: header.length + hello('').length,
      out: 'backend\n'.length,
    });
    assert.deepEqual([host, origin], [supports('openDetails') ? 'api.lab.test' : null, null]);
    const keys = [...Object.keys(list[2]), 'reason'];
    for (const client of [first, second]) {
      client.finish();
      await client.untilEnd();
    }
    const line = await lineOf(gateway, first);
    const logged = Object.keys(line).filter(key => !['level', 'time', 'msg'].includes(key));
    assert.deepEqual(keys.toSorted(), [...logged, 'id'].toSorted());
  });

  test('can be filtered by cluster and limited in number', async () => {
    using client = await tunnel(hello('api.lab.test'));
    using silent = await connectClient(gateway.port);
    const peers = async (query: string) =>
      (await ask(gateway, `/api/v1/connections?${query}`)).json.map(({ peer }: { peer: string }) => peer);
    await until('both', async () => (await peers('')).length === 2);
    assert.deepEqual(await peers('cluster=lab'), [client.address]);
    assert.deepEqual(await peers('limit=1'), [silent.address]);
    assert.deepEqual(await peers('cluster=closed'), []);
    for (const limit of ['0', '10001', 'x'])
      assert.equal((await ask(gateway, `/api/v1/connections?limit=${limit}`)).status, 400);
  });

  test('DELETE ends one as revoked, and no other; 404 afterwards and for an invalid id', async () => {
    using victim = await tunnel(hello('api.lab.test'));
    using other = await tunnel(hello('api.lab.test'));
    const { json } = await ask(gateway, '/api/v1/connections');
    const { id } = json.find(({ peer }: { peer: string }) => peer === victim.address);
    const end = (which: string) =>
      ask(gateway, `/api/v1/connections/${which}`, { method: 'DELETE', headers: changing });
    const { status, body } = await end(id);
    assert.deepEqual([status, body], [204, '']);
    assert.equal(await victim.untilEnd(), supports('resetOfEnded') ? 'RST' : 'FIN');
    assert.equal((await lineOf(gateway, victim)).reason, 'revoked');
    const again = await end(id);
    assert.equal(again.status, 404);
    assert.match(again.json.error, /No connection '\S+' is open/);
    for (const nonsense of ['x', '1-2-3', '%00', 'a'.repeat(1000)])
      assert.equal((await end(nonsense)).status, 404, nonsense);
    other.send('still here');
    other.finish();
    assert.equal(await other.untilEnd(), 'FIN');
    assert.equal((await lineOf(gateway, other)).reason, 'done');
  });

  if (supports('endOfSilent'))
    test('DELETE ends one that has not sent a byte', async () => {
      using silent = await connectClient(gateway.port);
      const { id } = await until('it to be there', async () => {
        const list = (await ask(gateway, '/api/v1/connections')).json;
        return list.find(({ peer }: { peer: string }) => peer === silent.address);
      });
      const { status } = await ask(gateway, `/api/v1/connections/${id}`, {
        method: 'DELETE',
        headers: changing,
      });
      assert.equal(status, 204);
      assert.equal(await silent.untilEnd(), 'RST');
    });
});

describe('explain', () => {
  test('answers as the command does', async () => {
    const { status, json } = await ask(gateway, '/api/v1/explain?host=closed.test&from=192.0.2.1');
    assert.equal(status, 200);
    const { stages, ...rest } = json;
    assert.deepEqual(rest, {
      served: false,
      reason: 'not-allowed',
      cluster: 'closed',
      route: 'api',
      backend: null,
    });
    assert.deepEqual(
      stages.map(({ stage, ok }: { stage: string; ok: boolean }) => [stage, ok]),
      [
        ['accept', true],
        ['identify', true],
        ['route', true],
        ['admit', false],
      ],
    );
    const byId = await ask(gateway, '/api/v1/explain?host=&from=127.0.0.2&protocol=tls&id=lab-id');
    assert.deepEqual([byId.json.served, byId.json.cluster], [true, 'lab']);
  });

  test('a bad query: 400 with a message', async () => {
    for (const [query, reported] of [
      ['', /Name a host/],
      ['host=a&from=nowhere', /must be an IPv4 or IPv6 address: nowhere/],
      ['host=a&protocol=quic', /protocol must be one of/],
      ['host=a&on=:1', /no listener ':1'/],
    ] as const) {
      const { status, json } = await ask(gateway, `/api/v1/explain?${query}`);
      assert.equal(status, 400, query);
      assert.match(json.error, reported);
    }
  });

  test('uses the table after an edit', async () => {
    await using edited = await startCauseway({ config: 'listen: ["127.0.0.1:0"]\nworkers: 1\n' });
    const served = async () => (await ask(edited, '/api/v1/explain?host=new.test')).json.served;
    assert.equal(await served(), false);
    await edited.write(
      'listen: ["127.0.0.1:0"]\nworkers: 1\nclusters: [{ name: a, api: { hosts: [new.test], backends: ["127.0.0.1:9"] } }]\n',
    );
    await edited.line(line => line.msg === 'applied');
    assert.equal(await served(), true);
    assert.equal((await ask(edited, '/api/v1/clusters')).json.length, 1);
  });
});

describe('drain', () => {
  test('like SIGTERM: open connections may finish, then the process exits with 0', async () => {
    await using draining = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
timeouts: { drain: 1h }
clusters: [{ name: lab, api: { hosts: [api.lab.test], backends: ["${backend.text}"] } }]
`,
    });
    using client = await connectClient(draining.port);
    client.send(hello('api.lab.test'));
    await client.receives('backend\n');
    const { status, json } = await ask(draining, '/api/v1/drain', { method: 'POST', headers: changing });
    assert.deepEqual([status, json], [202, { draining: true, connections: 1 }]);
    assert.equal((await ask(draining, '/readyz')).status, 503);
    // A second request and a signal change nothing: it is already draining.
    assert.equal((await ask(draining, '/api/v1/drain', { method: 'POST', headers: changing })).status, 202);
    draining.program.signal('SIGTERM');
    client.send('still here');
    client.finish();
    assert.equal(await client.untilEnd(), 'FIN');
    assert.deepEqual(await draining.program.ended, { code: 0, signal: null });
    assert.equal(draining.lines().filter(line => line.msg === 'draining').length, 1);
    assert.equal((await lineOf(draining, client)).reason, 'done');
  });

  test('a second signal ends it now', async () => {
    await using draining = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
timeouts: { drain: 1h }
clusters: [{ name: lab, api: { hosts: [api.lab.test], backends: ["${backend.text}"] } }]
`,
    });
    using client = await connectClient(draining.port);
    client.send(hello('api.lab.test'));
    await client.receives('backend\n');
    await ask(draining, '/api/v1/drain', { method: 'POST', headers: changing });
    draining.program.signal('SIGTERM');
    draining.program.signal('SIGINT');
    assert.deepEqual(await draining.program.ended, { code: 0, signal: null });
    assert.equal((await lineOf(draining, client)).reason, 'shutdown');
  });
});

describe('methods and paths', () => {
  test('HEAD is GET without a body', async () => {
    for (const path of [
      '/',
      '/healthz',
      '/api/v1/status',
      '/metrics',
      '/api/v1/clusters',
      '/api/v1/events',
    ]) {
      const { status, body } = await ask(gateway, path, { method: 'HEAD' });
      assert.deepEqual([status, body], [200, ''], path);
    }
    assert.equal((await ask(gateway, '/api/v1/drain', { method: 'HEAD' })).status, 405);
    assert.equal((await ask(gateway, '/readyz')).status, 200);
  });

  test('OPTIONS lists the methods, and grants nothing to other origins', async () => {
    const { status, headers } = await ask(gateway, '/api/v1/drain', {
      method: 'OPTIONS',
      headers: { Origin: 'http://evil.test', 'Access-Control-Request-Method': 'POST' },
    });
    assert.deepEqual([status, headers.allow], [204, 'POST, OPTIONS']);
    assert.equal(headers['access-control-allow-origin'], undefined);
  });

  for (const [method, path, status] of [
    ['POST', '/api/v1/status', 405],
    ['GET', '/api/v1/drain', 405],
    ['GET', '/api/v1/connections/x', 405],
    ['DELETE', '/api/v1/connections', 405],
    ['PUT', '/healthz', 405],
    ['TRACE', '/metrics', 405],
    ['POST', '/', 405],
    ['DELETE', '/dashboard/main.js', 405],
    ['GET', '/api/v1', 404],
    ['GET', '/api/v2/status', 404],
    ['POST', '/nowhere', 404],
  ] as const) {
    test(`${method} ${path}: ${status}, as JSON with a message`, async () => {
      const { status: found, json, headers } = await ask(gateway, path, { method });
      assert.equal(found, status);
      assert.equal(typeof json.error, 'string');
      if (status === 405) assert.match(String(headers.allow), /OPTIONS$/);
    });
  }

  test('every response has the security headers for browsers', async () => {
    for (const path of ['/healthz', '/api/v1/status', '/nowhere', '/api/v1/explain']) {
      const { headers } = await ask(gateway, path);
      assert.match(String(headers['content-security-policy']), /default-src 'none'/, path);
      assert.equal(headers['x-content-type-options'], 'nosniff', path);
      assert.equal(headers['cache-control'], 'no-store', path);
    }
  });

  test('none of it disturbs the served connections', async () => {
    assert.equal(await servedBy(gateway.port, hello('api.lab.test')), 'backend');
  });
});
