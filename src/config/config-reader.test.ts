// ConfigReader against the file system: what each read gives, and which clusters stay the same objects.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { tempDir } from '../../testbed/temp-dir.ts';
import type { Config } from './config.ts';
import { ConfigReader } from './config-reader.ts';
import { readConfigFile } from './read-config-file.ts';

const CLUSTERS = 600;

function clusterOf(number: number): string {
  return `  - name: c${number}\n    api: { hosts: [c${number}.test], backends: ["192.0.2.1:6443"] }\n`;
}

function fileOf(clusters: readonly string[], top = ''): string {
  return `listen: [":6443"]\n${top}clusters:\n${clusters.join('')}`;
}

const all = Array.from({ length: CLUSTERS }, (_, number) => clusterOf(number));

async function follow() {
  const dir = await tempDir();
  const file = dir.file('causeway.yaml');
  const reader = new ConfigReader(file);
  return {
    file,
    reader,
    /** Writes and reads the file: the same as without a reader that remembers. */
    async read(text: string): Promise<Config | undefined> {
      await writeFile(file, text);
      const read = await reader.read();
      assert.deepEqual(read, await readConfigFile(file));
      return read.ok ? read.config : undefined;
    },
    async [Symbol.asyncDispose]() {
      await reader[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

test('ConfigReader keeps unchanged clusters as the same objects, wherever they move', async () => {
  await using given = await follow();
  const before = await given.read(fileOf(all));
  const after = await given.read(fileOf([clusterOf(1000), ...all.slice(1).toReversed()], 'retries: 1\n'));
  assert.equal(after?.retries, 1);
  assert.equal(after?.clusters[0].name, 'c1000');
  const rest = before?.clusters.slice(1).toReversed() ?? [];
  assert.ok(rest.every((cluster, index) => cluster === after?.clusters[index + 1]));
});

test('ConfigReader reports mistakes with positions, and remembers the clusters meanwhile', async () => {
  await using given = await follow();
  const before = await given.read(fileOf(all));
  assert.equal(await given.read(fileOf([...all, clusterOf(0)])), undefined);
  assert.equal(await given.read(`${fileOf(all)}\tx`), undefined);
  const after = await given.read(fileOf(all));
  assert.ok(before?.clusters.every((cluster, index) => cluster === after?.clusters[index]));
});

test('ConfigReader reads files of any size one after the other', async () => {
  await using given = await follow();
  assert.equal(await given.read(''), undefined);
  assert.equal((await given.read('listen: [":6443"]'))?.clusters.length, 0);
  assert.equal((await given.read(fileOf(all)))?.clusters.length, CLUSTERS);
  assert.equal((await given.read(fileOf(all.slice(0, 2))))?.clusters.length, 2);
  const required = 'identity: { secretFile: ./secret, required: true }\n';
  assert.equal((await given.read(fileOf(all, required)))?.clusters.length, CLUSTERS);
  assert.equal((await given.read(fileOf(all)))?.clusters[0].identityRequired, false);
});
