// The directory source: files of clusters that come, go and break while the gateway serves.

import assert from 'node:assert/strict';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, connectClient, hello, until } from './given.ts';

interface ClusterAnswer {
  readonly name: string;
  readonly source: string;
  readonly routes: readonly { readonly hosts: readonly string[] }[];
  readonly findings: readonly { readonly code: string }[];
}

async function given({ more = '', own = '' } = {}) {
  const stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const backend = stack.use(await Backend.start({ name: 'backend' }));
  const clusters = join(dir.path, 'clusters');
  const state = join(dir.path, 'state');
  await mkdir(clusters);
  const file = (name: string, ...hosts: readonly string[]) =>
    `clusters: [{ name: ${name}, api: { hosts: [${hosts.join(', ')}], backends: ["${backend.text}"], health: { check: none } } }]\n`;
  const config = `listen: ["127.0.0.1:0"]\nsources: [{ directory: { path: ${clusters} } }]\n${more.replace('STATE', state)}\nclusters: [${own.replaceAll('BACKEND', backend.text)}]\n`;
  const start = async () => stack.use(await startCauseway({ config }));
  const gateway = await start();
  const isServed = async (host: string, at = gateway) => {
    using client = await connectClient(at.port);
    client.send(hello(host));
    // A route that is being removed may end it with a reset.
    const answer = await client.receives(7).catch(() => Buffer.alloc(0));
    return answer.toString('latin1').startsWith('backend');
  };
  const answers = async (at = gateway) =>
    (await (await fetch(`${at.admin}/api/v1/clusters`)).json()) as readonly ClusterAnswer[];
  // Workers serve a change a moment before the admin side knows that all of them do.
  const isListed = async (host: string, at = gateway) =>
    (await answers(at)).some(({ routes }) => routes.some(({ hosts }) => hosts.includes(host)));
  return {
    gateway,
    start,
    clusters,
    state,
    file,
    isServed,
    write: (name: string, text: string) => writeFile(join(clusters, name), text),
    answers,
    serves: (host: string, at = gateway) =>
      until(
        `${host} to be served and listed`,
        async () => (await isServed(host, at)) && (await isListed(host, at)),
      ),
    refuses: (host: string) => until(`${host} to be refused`, async () => !(await isServed(host))),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

test('clusters of a directory are served, follow their files and are listed with their source', async () => {
  await using directory = await given();
  const { write, serves, refuses, file, gateway } = directory;
  await write('a.yaml', file('a', 'a.test'));
  await serves('a.test');
  assert.deepEqual(
    (await directory.answers()).map(({ name, source }) => [name, source]),
    [['a', 'directory']],
  );
  await write('a.yaml', file('a', 'a2.test'));
  await serves('a2.test');
  await refuses('a.test');
  await rm(join(directory.clusters, 'a.yaml'));
  await refuses('a2.test');
  const { sources } = (await gateway.status()) as { sources: unknown };
  assert.deepEqual(sources, [
    { name: 'file', up: true, synced: true, error: null },
    { name: 'directory', up: true, synced: true, error: null },
  ]);
  assert.equal(await gateway.metric('causeway_source_up', { source: 'directory' }), 1);
});

test('a broken file is a finding with its position; its clusters and all others are still served', async () => {
  await using directory = await given();
  const { write, serves, file, gateway } = directory;
  await write('a.yaml', file('a', 'a.test'));
  await write('b.yaml', file('b', 'b.test'));
  await serves('a.test');
  await serves('b.test');
  await write('a.yaml', 'clusters: [{ name: a, apii: {} }]\n');
  const line = await gateway.line(({ msg }) => msg === 'finding');
  assert.equal(line.code, 'FileInvalid');
  assert.match(String(line.text), /a\.yaml:1:\d+: clusters\[0\]: unknown key "apii"; did you mean "api"\?$/);
  await serves('a.test');
  await write('b.yaml', file('b', 'b2.test'));
  await serves('b2.test');
  assert.equal(await gateway.metric('causeway_findings', { severity: 'error' }), 1);
  await write('a.yaml', file('a', 'a3.test'));
  await serves('a3.test');
  assert.equal(await gateway.metric('causeway_findings', { severity: 'error' }), 0);
});

test('the file wins over the directory, and of two files the first by name', async () => {
  await using directory = await given({
    own: '{ name: own, api: { hosts: [own.test], backends: ["BACKEND"], health: { check: none } } }',
  });
  const { write, serves, isServed, file } = directory;
  await write('b.yaml', file('b', 'x.test', 'b.test'));
  await serves('x.test');
  await write('a.yaml', file('a', 'x.test', 'a.test', 'own.test'));
  await serves('a.test');
  const findings = new Map(
    (await directory.answers()).map(({ name, findings: found }) => [name, found.map(({ code }) => code)]),
  );
  assert.deepEqual(findings.get('own'), []);
  assert.deepEqual(findings.get('a'), ['HostClaimed']);
  assert.deepEqual(findings.get('b'), ['HostClaimed']);
  assert.ok(await isServed('own.test'));
});

test('it is not ready until the directory has been read, and serves the file meanwhile', async () => {
  await using directory = await given({
    own: '{ name: own, api: { hosts: [own.test], backends: ["BACKEND"], health: { check: none } } }',
  });
  await rename(directory.clusters, `${directory.clusters}-away`);
  const gateway = await directory.start();
  assert.ok(await directory.isServed('own.test', gateway));
  const ready = async () => {
    const answer = await fetch(`${gateway.admin}/readyz`);
    return `${answer.status} ${await answer.text()}`;
  };
  assert.match(
    await ready(),
    /^503 .*source 'directory' has not been listed yet: Cannot read '.*clusters': ENOENT/,
  );
  await rename(`${directory.clusters}-away`, directory.clusters);
  await until('it to be ready', async () => (await ready()).startsWith('200'));
});

test('stateDir: a start without the directory serves the clusters of the last run', async () => {
  await using directory = await given({ more: 'stateDir: STATE' });
  const { write, serves, file, gateway, start } = directory;
  await write('a.yaml', file('a', 'a.test'));
  await serves('a.test');
  gateway.program.signal('SIGTERM');
  await gateway.program.ended;
  await rename(directory.clusters, `${directory.clusters}-away`);
  const next = await start();
  assert.ok(await directory.isServed('a.test', next));
  // What the directory says counts as soon as it can be read.
  await writeFile(join(`${directory.clusters}-away`, 'a.yaml'), file('a', 'b.test'));
  await rename(`${directory.clusters}-away`, directory.clusters);
  await serves('b.test', next);
  assert.equal(await directory.isServed('a.test', next), false);
});

test('stateDir: a saved file that was damaged is ignored, with a warning', async () => {
  await using directory = await given({ more: 'stateDir: STATE' });
  const { write, serves, file, gateway, start } = directory;
  await write('a.yaml', file('a', 'a.test'));
  await serves('a.test');
  gateway.program.signal('SIGTERM');
  await gateway.program.ended;
  await writeFile(join(directory.state, 'clusters.json'), '{"format":1,"sha256":"x","sources":"[]"}');
  const next = await start();
  const line = await next.line(({ msg }) => msg === 'saved clusters ignored');
  assert.match(String(line.error), /checksum/);
  await serves('a.test', next);
});
