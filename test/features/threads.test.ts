// Threads start when the configuration first needs them, and serve at once when the edit is applied.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { connect, constants } from 'node:http2';
import { test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { streamThread } from './engine.ts';
import { Backend, hello, servedBy, until } from './given.ts';
import { HttpBackend, HttpClient } from './http-given.ts';

const WORKERS = 2;

function file(...clusterKeys: readonly string[]): string {
  return [
    'listen: ["127.0.0.1:0"]',
    'admin: { on: off }',
    `workers: ${WORKERS}`,
    'clusters:',
    '  - name: a',
    ...clusterKeys.map(line => `    ${line}`),
    '',
  ].join('\n');
}

/** How many threads of ours there are, by kind. The kernel keeps the first 15 characters of a name. */
function threads({ program }: Causeway): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const task of readdirSync(`/proc/${program.pid}/task`)) {
    const name = readFileSync(`/proc/${program.pid}/task/${task}/comm`, 'utf8');
    const kind = /^causeway-([a-z]+)/.exec(name)?.[1];
    if (kind !== undefined) counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

/** Resolves when the file is applied. */
async function edit(gateway: Causeway, config: string): Promise<void> {
  const applied = () => gateway.lines().filter(({ msg }) => msg === 'applied').length;
  const before = applied();
  await gateway.write(config);
  await until('the edit', () => applied() > before);
}

test('without HTTP routes, agents and health checks there are workers only', async () => {
  await using backend = await Backend.start({ name: 'tls' });
  const config = file(`api: { hosts: [a.test], backends: ["${backend.text}"], health: { check: none } }`);
  await using gateway = await startCauseway({ config });
  assert.equal(await servedBy(gateway.port, hello('a.test')), 'tls');
  assert.deepEqual(threads(gateway), { worker: WORKERS });
});

test('the first connection over HTTP/2 and the first check start their threads, and are served as soon as the edit is applied', async () => {
  await using backend = await HttpBackend.start('web');
  const api = `api: { hosts: [a.test], backends: ["${backend.text}"], health: { check: none } }`;
  await using gateway = await startCauseway({ config: file(api) });
  assert.deepEqual(threads(gateway), { worker: WORKERS });
  const apps = (check: string) => `apps: { hosts: [www.test], http: ${pool(backend.text, check)} }`;
  await edit(gateway, file(api, apps('none')));
  using visitor = await HttpClient.connect(gateway.port);
  assert.equal((await visitor.get('www.test')).status, 200);
  assert.deepEqual(threads(gateway), { worker: WORKERS }, 'HTTP/1 needs no other threads');
  for (let round = 0; round < 2; round++)
    assert.equal(await codeOverH2(gateway), constants.NGHTTP2_HTTP_1_1_REQUIRED);
  assert.deepEqual(
    threads(gateway),
    streamThread === 'worker-0' ? { worker: WORKERS } : { worker: WORKERS, stream: WORKERS },
  );
  await edit(gateway, file(api, apps('http')));
  await until('a check', () => threads(gateway).health === 1);
  assert.equal((await visitor.get('www.test')).status, 200, 'the same connection goes on');
});

/** With what a request over HTTP/2 is reset. */
async function codeOverH2({ port }: Causeway): Promise<number> {
  const session = connect(`http://127.0.0.1:${port}`);
  try {
    const stream = session.request({ ':path': '/', ':authority': 'www.test' });
    const { promise, resolve } = Promise.withResolvers<void>();
    stream.on('error', () => {}).once('close', resolve);
    await promise;
    return stream.rstCode;
  } finally {
    session.destroy();
  }
}

function pool(backend: string, check: string): string {
  return `{ backends: ["${backend}"], health: { check: ${check} } }`;
}
