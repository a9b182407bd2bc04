import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Asked, startApiStandIn } from '../../testbed/start-api-stand-in.ts';
import type { WatchEvent, WatchOptions } from './kube-api.ts';
import { openKubeClient } from './kube-client.ts';
import type { Service } from './kube-object.ts';
import { openKubeAccess } from './open-kube-access.ts';
import { services } from './resources.ts';

const skip = missingPrograms('openssl');

const added = (name: string) => ({
  type: 'ADDED',
  object: { kind: 'Service', apiVersion: 'v1', metadata: { name, resourceVersion: '8' } },
});

/** What a server does with a watch; other calls are answered. */
type Server = (response: ServerResponse, asked: Asked) => void;

async function given(server: Server, { silenceMs = 60_000, timeoutMs = 10_000 } = {}) {
  const stack = new AsyncDisposableStack();
  const api = stack.use(
    await startApiStandIn(['api.a.test'], (asked, response) => {
      if (!asked.url.includes('watch=true')) return { body: '{}' };
      server(response, asked);
      return undefined;
    }),
  );
  const access = await openKubeAccess({ kubeconfig: await api.kubeconfig({ server: 'https://api.a.test' }) });
  const random = () => 0.5;
  const client = stack.use(openKubeClient({ access, at: api.at, silenceMs, timeoutMs, random }));
  const events: WatchEvent<Service>[] = [];
  const end = new AbortController();
  const watch = (options: Partial<WatchOptions> = {}, onEvent?: () => void) =>
    client.watch(services, { resourceVersion: '7', signal: end.signal, ...options }, event => {
      events.push(event);
      onEvent?.();
    });
  return { api, client, events, end, watch, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test('watch() asks for bookmarks from where it left off, and says when the server ends it', {
  skip,
}, async () => {
  await using it = await given(response => {
    response.write(`${JSON.stringify(added('a'))}\n`);
    response.end('{"type":"BOOKMARK","object":{"kind":"Service","metadata":{"resourceVersion":"9"}}}\n');
  });
  let opened = 0;
  const selection = { namespace: 'default', labelSelector: 'a=b', fieldSelector: 'metadata.name=a' };
  const end = await it.watch({ ...selection, onOpen: () => opened++ });
  assert.deepEqual(end, { why: 'closed' });
  assert.equal(opened, 1);
  assert.deepEqual(it.events, [added('a'), { type: 'BOOKMARK', resourceVersion: '9' }]);
  const [path, query] = it.api.asked[0].url.split('?');
  assert.equal(path, '/api/v1/namespaces/default/services');
  assert.deepEqual(Object.fromEntries(new URLSearchParams(query)), {
    labelSelector: 'a=b',
    fieldSelector: 'metadata.name=a',
    watch: 'true',
    allowWatchBookmarks: 'true',
    timeoutSeconds: '450',
    resourceVersion: '7',
  });
});

test('watch() has expired where an event or the answer says 410', { skip }, async () => {
  const status = { kind: 'Status', metadata: {}, code: 410, reason: 'Expired', message: 'too old' };
  for (const server of [
    (response: ServerResponse) =>
      response.end(`${JSON.stringify({ type: 'ERROR', object: status })}\n${JSON.stringify(added('a'))}\n`),
    (response: ServerResponse) => response.writeHead(410).end(JSON.stringify(status)),
  ]) {
    await using it = await given(server);
    const fault = { status: 410, reason: 'Expired', message: 'too old' };
    assert.deepEqual(await it.watch(), { why: 'expired', fault });
    assert.deepEqual(it.events, []);
  }
});

for (const status of [401, 403, 404, 429, 500]) {
  test(`watch() tells of a refusal with ${status}`, { skip }, async () => {
    await using it = await given(response =>
      response.writeHead(status).end('{"reason":"No","message":"why"}'),
    );
    assert.deepEqual(await it.watch(), { why: 'failed', fault: { status, reason: 'No', message: 'why' } });
  });
}

for (const [what, body] of [
  ['no JSON', '<html>\n'],
  ['no event', '{"items":[]}\n'],
  ['an unknown event', '{"type":"RENAMED","object":{"metadata":{}}}\n'],
  ['nothing', 'null\n'],
] as const) {
  test(`watch() fails on ${what}`, { skip }, async () => {
    await using it = await given(response => void response.write(body));
    const end = await it.watch();
    assert.equal(end.why === 'failed' && end.fault.reason, 'BadAnswer');
  });
}

test('watch() fails when the connection is cut, after the events that came', { skip }, async () => {
  await using it = await given(response => {
    response.write(`${JSON.stringify(added('a'))}\n{"type":"ADD`, () => response.socket?.destroy());
  });
  const end = await it.watch();
  assert.equal(end.why === 'failed' && end.fault.reason, 'Unreachable');
  assert.deepEqual(it.events, [added('a')]);
});

test('watch() is silent where no byte comes, and not while some do', { skip }, async () => {
  let bytes = 0;
  await using it = await given(
    response => {
      const body = `${JSON.stringify(added('a'))}\n`;
      response.flushHeaders();
      // Slower than the whole silence, and never as slow between two bytes.
      const timer = setInterval(() => {
        if (bytes < body.length) response.write(body[bytes++]);
        else clearInterval(timer);
      }, 20);
    },
    { silenceMs: 1000 },
  );
  assert.deepEqual(await it.watch(), { why: 'silent' });
  assert.deepEqual(it.events, [added('a')]);
});

test('watch() does not wait longer for the head of an answer than a call does', { skip }, async () => {
  await using it = await given(() => {}, { timeoutMs: 200 });
  const end = await it.watch();
  assert.deepEqual(end, {
    why: 'failed',
    fault: { status: 0, reason: 'Timeout', message: 'No answer within 200 ms' },
  });
});

test('watch() ends with its signal and has no event after it', { skip }, async () => {
  await using it = await given(response => {
    response.write(`${JSON.stringify(added('a'))}\n${JSON.stringify(added('b'))}\n`);
  });
  assert.deepEqual(await it.watch({}, () => it.end.abort()), { why: 'aborted' });
  assert.deepEqual(it.events, [added('a')]);
  assert.deepEqual(await it.watch(), { why: 'aborted' });
});

test('watch() ends with its client', { skip }, async () => {
  await using it = await given(response => response.flushHeaders());
  const { promise: opened, resolve } = Promise.withResolvers<void>();
  const end = it.watch({ onOpen: resolve });
  await opened;
  it.client[Symbol.dispose]();
  assert.deepEqual(await end, { why: 'aborted' });
});

test('watch() fails, and does not throw, where its listener does', { skip }, async () => {
  await using it = await given(response => void response.write(`${JSON.stringify(added('a'))}\n`));
  const end = await it.watch({}, () => {
    throw new Error('a mistake');
  });
  assert.deepEqual(end, {
    why: 'failed',
    fault: { status: 0, reason: 'Unexpected', message: 'Error: a mistake' },
  });
});

test('watch() has a connection of its own, so that many do not keep calls waiting', { skip }, async () => {
  await using it = await given(response => response.flushHeaders());
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on('warning', warn);
  const opened = Array.from({ length: 20 }, () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    void it.watch({ onOpen: resolve });
    return promise;
  });
  await Promise.all(opened);
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) => it.client.get(services, 'default', String(i))),
  );
  assert.ok(answers.every(({ ok }) => ok));
  const connections = it.api.connections();
  assert.ok(connections > 20 && connections <= 28, `${connections} connections`);
  process.off('warning', warn);
  assert.deepEqual(warnings, []);
});
