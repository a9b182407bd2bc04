// Events of the admin API: refusals and table changes, for a bounded number of clients, without cost to others.

import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { ask, changing, Events } from './ask-admin.ts';
import { Backend, connectClient, hello, servedBy, until, visit } from './given.ts';

let backend: Backend;
const stack = new AsyncDisposableStack();

before(async () => {
  backend = stack.use(await Backend.start({ name: 'backend' }));
});

after(() => stack.disposeAsync());

function config(more = ''): string {
  return `
listen: ["127.0.0.1:0"]
${more}
clusters: [{ name: lab, api: { hosts: [api.lab.test], backends: ["${backend.text}"] } }]
`;
}

const started = async (more?: string): Promise<Causeway> =>
  stack.use(await startCauseway({ config: config(more) }));

for (const logged of ['all', 'refused', 'none']) {
  test(`a refusal is an event with the keys of the log (log.connections: ${logged})`, async () => {
    const gateway = await started(`log: { connections: ${logged} }`);
    using events = await Events.open(gateway);
    await servedBy(gateway.port, hello('api.lab.test'));
    const { address } = await visit(gateway.port, hello('unknown.test'));
    const { at, ms, ...rest } = await events.event('refusal');
    assert.ok(Math.abs(Date.parse(String(at)) - Date.now()) < 60_000);
    assert.ok(Number(ms) >= 0);
    assert.deepEqual(rest, {
      listener: '127.0.0.1:0',
      peer: address,
      client: address,
      origin: null,
      protocol: 'tls',
      host: 'unknown.test',
      clusterId: null,
      cluster: null,
      route: null,
      backend: null,
      reason: 'unknown-host',
      error: null,
      in: hello('unknown.test').length,
      out: 7,
      dialMs: null,
      skipped: 0,
    });
    // The served connection is no refusal; and the log has only what log.connections selects.
    await visit(gateway.port, hello('second.test'));
    await events.event('refusal', ({ host }) => host === 'second.test');
    assert.equal(events.all().length, 2);
    const lines = { all: 3, refused: 2, none: 0 }[logged];
    await until('the log', () => gateway.connections().length >= (lines ?? 0));
    assert.equal(gateway.connections().length, lines);
  });
}

describe('table', () => {
  test('is sent for an applied file and for a refused one', async () => {
    const gateway = await started();
    using events = await Events.open(gateway);
    await gateway.write(`${config()}  # edited\n`.replace('api.lab.test', 'api.lab.test, b.lab.test'));
    const { at, ...good } = await events.event('table');
    assert.ok(Date.parse(String(at)) > 0);
    assert.deepEqual(good, { generation: 2, clusters: 1, routes: 1, hosts: 2, ok: true, error: null });
    await gateway.write('listen: nonsense\n');
    const { error, ...bad } = await events.event('table', ({ ok }) => ok === false);
    assert.match(String(error), /causeway\.yaml:\d+:\d+: listen/);
    assert.deepEqual(
      { ...bad, at: 0 },
      { at: 0, generation: 2, clusters: 1, routes: 1, hosts: 2, ok: false },
    );
  });
});

test('a revoked connection is a refusal event', async () => {
  const gateway = await started();
  using events = await Events.open(gateway);
  using client = await connectClient(gateway.port);
  client.send(hello('api.lab.test'));
  await client.receives('backend\n');
  const [{ id }] = (await ask(gateway, '/api/v1/connections')).json;
  await ask(gateway, `/api/v1/connections/${id}`, { method: 'DELETE', headers: changing });
  const { reason, cluster, peer } = await events.event('refusal');
  assert.deepEqual([reason, cluster, peer], ['revoked', 'lab', client.address]);
});

test('at most 32 streams, then 503; closing one frees a place', async () => {
  const gateway = await started();
  const streams = await Promise.all(Array.from({ length: 32 }, () => Events.open(gateway)));
  const refused = await ask(gateway, '/api/v1/events');
  assert.equal(refused.status, 503);
  assert.match(refused.json.error, /32 event streams/);
  streams[0][Symbol.dispose]();
  const late = await until('room', async () => {
    const events = await Events.open(gateway);
    if (events.response.statusCode === 200) return events;
    events[Symbol.dispose]();
    return undefined;
  });
  await visit(gateway.port, hello('unknown.test'));
  for (const stream of [...streams.slice(1), late]) {
    await stream.event('refusal');
    stream[Symbol.dispose]();
  }
});

test('a flood of refusals is sampled, and a client that does not read affects no other', async () => {
  const gateway = await started('log: { connections: none }');
  using events = await Events.open(gateway);
  const { port } = new URL(gateway.admin);
  const deaf = connect(Number(port), '127.0.0.1');
  deaf.on('error', () => {}).pause();
  deaf.write('GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const flood = 1000;
  const said = hello('unknown.test');
  for (let done = 0; done < flood; done += 50)
    await Promise.all(Array.from({ length: 50 }, () => visit(gateway.port, said)));
  const reported = () => events.all().reduce((sum, { data }) => sum + 1 + Number(data.skipped), 0);
  // The next event reports what was left out at the end.
  await until('all to be sent or counted', async () => {
    await visit(gateway.port, said);
    return reported() >= flood;
  });
  const bySecond = Map.groupBy(events.all(), ({ data }) => String(data.at).slice(0, 19));
  for (const [second, reported] of bySecond)
    assert.ok(reported.length <= 200, `${reported.length} at ${second}`);
  assert.equal(await servedBy(gateway.port, hello('api.lab.test')), 'backend');
  assert.equal((await ask(gateway, '/healthz')).status, 200);
  deaf.destroy();
});

test('streams end with the process, and do not delay its exit', async () => {
  const gateway = await started('timeouts: { drain: 1h }');
  using events = await Events.open(gateway);
  gateway.program.signal('SIGTERM');
  assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
  await until('the end of the stream', () => events.ended);
});
