import assert from 'node:assert/strict';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { tempDir } from '../../testbed/temp-dir.ts';
import { openDirectory } from './directory.ts';
import { sourceContract } from './source.contract.ts';
import type { Observation } from './source.ts';

const WAIT_MS = 20_000;

const clusterFile = (...names: readonly string[]) =>
  `clusters:\n${names.map(name => `  - { name: ${name}, api: { hosts: [${name}.lab], backends: ["192.0.2.1:6443"] } }\n`).join('')}`;

async function given(files: Readonly<Record<string, string>>) {
  const dir = await tempDir();
  const folder = join(dir.path, 'clusters');
  await mkdir(folder);
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  let changes = 0;
  const source = openDirectory(
    { path: 'clusters' },
    { name: 'directory', folder: dir.path, kubeApi: () => assert.fail('no API server here') },
    () => changes++,
  );
  const until = async (holds: (seen: Observation) => boolean): Promise<Observation> => {
    const deadline = performance.now() + WAIT_MS;
    for (;;) {
      const seen = source.observe();
      if (holds(seen)) return seen;
      assert.ok(performance.now() < deadline, `waited in vain: ${JSON.stringify(seen)}`);
      await new Promise(resolve => setTimeout(resolve, 10));
    }
  };
  return {
    folder,
    source,
    until,
    changes: () => changes,
    write: (name: string, text: string) => writeFile(join(folder, name), text),
    async [Symbol.asyncDispose]() {
      await source[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

const namesOf = ({ clusters }: Observation) => clusters.map(({ name }) => name).join(' ');

test('the directory source reads every YAML file but hidden ones, in the order of their names', async () => {
  await using directory = await given({
    'b.yaml': clusterFile('b'),
    'a.yml': clusterFile('a1', 'a2'),
    '.hidden.yaml': clusterFile('hidden'),
    'notes.txt': clusterFile('notes'),
  });
  assert.deepEqual(directory.source.observe(), {
    clusters: [],
    findings: [],
    synced: false,
    complete: false,
  });
  const seen = await directory.until(({ synced }) => synced);
  assert.equal(namesOf(seen), 'a1 a2 b');
  assert.deepEqual(seen.clusters[0].origin, { source: 'directory' });
  assert.ok(seen.complete);
  assert.ok(directory.changes() > 0);
});

test('a broken file keeps its last good clusters, with findings that have the position', async () => {
  await using directory = await given({ 'a.yaml': clusterFile('a'), 'b.yaml': clusterFile('b') });
  const before = await directory.until(({ synced }) => synced);
  await directory.write('a.yaml', 'clusters:\n  - { name: a, api: { hots: [a.lab], backends: [] } }\n');
  const seen = await directory.until(({ findings }) => findings.length > 0);
  assert.equal(seen.clusters[0], before.clusters[0]);
  assert.equal(namesOf(seen), 'a b');
  const [finding] = seen.findings;
  assert.equal(finding.code, 'FileInvalid');
  assert.match(
    finding.text,
    /a\.yaml:2:\d+: clusters\[0\]\.api: unknown key "hots"; did you mean "hosts"\?$/,
  );
  assert.match(finding.fix, /last good clusters are served/);
  await directory.write('a.yaml', clusterFile('a', 'a2'));
  const mended = await directory.until(({ findings }) => findings.length === 0);
  assert.equal(namesOf(mended), 'a a2 b');
  assert.equal(mended.clusters[0], before.clusters[0], 'the same object for what has not changed');
});

test('files that are added, renamed and removed are followed', async () => {
  await using directory = await given({});
  await directory.until(({ synced }) => synced);
  await directory.write('a.yaml', clusterFile('a'));
  await directory.until(seen => namesOf(seen) === 'a');
  await rename(join(directory.folder, 'a.yaml'), join(directory.folder, '.a.yaml'));
  await directory.until(seen => namesOf(seen) === '');
  await symlink('.a.yaml', join(directory.folder, 'c.yaml'));
  await directory.until(seen => namesOf(seen) === 'a');
});

test('a directory that cannot be read keeps its clusters, and is read again when it is back', async () => {
  await using directory = await given({ 'a.yaml': clusterFile('a') });
  await directory.until(({ synced }) => synced);
  await rename(directory.folder, `${directory.folder}-away`);
  const seen = await directory.until(({ error }) => error !== undefined);
  assert.equal(namesOf(seen), 'a');
  assert.ok(!seen.complete);
  assert.match(seen.error ?? '', /^Cannot read '.*clusters': ENOENT$/);
  await rename(`${directory.folder}-away`, directory.folder);
  await directory.until(({ error, complete }) => error === undefined && complete);
});

test('a directory that does not exist yet is waited for', async () => {
  await using directory = await given({});
  await directory.until(({ synced }) => synced);
  await rm(directory.folder, { recursive: true });
  await directory.until(({ error }) => error !== undefined);
  await mkdir(directory.folder);
  await directory.write('a.yaml', clusterFile('a'));
  await directory.until(seen => namesOf(seen) === 'a');
});

test('a link out of the directory is refused, and nothing of its target is shown', async () => {
  await using directory = await given({ 'b.yaml': clusterFile('b') });
  await writeFile(join(directory.folder, '..', 'secret'), 'a secret that only the gateway may read');
  await symlink('../secret', join(directory.folder, 'a.yaml'));
  await mkdir(join(directory.folder, '..data'));
  await writeFile(join(directory.folder, '..data', 'c.yaml'), clusterFile('c'));
  await symlink('..data/c.yaml', join(directory.folder, 'c.yaml'));
  const seen = await directory.until(
    ({ clusters, findings }) => clusters.length === 2 && findings.length > 0,
  );
  assert.equal(namesOf(seen), 'b c');
  assert.match(seen.findings[0].text, /a\.yaml: is a link out of its directory: put the file itself there$/);
});

test('one file may have any number of mistakes', async () => {
  const wrong = `clusters:\n${'  - { nam: x }\n'.repeat(500)}`;
  await using directory = await given({ 'a.yaml': wrong, 'b.yaml': clusterFile('b') });
  const seen = await directory.until(({ synced }) => synced);
  assert.equal(namesOf(seen), 'b');
  assert.equal(seen.findings.length, 20);
});

sourceContract(
  'directory',
  async t => {
    const dir = await tempDir();
    t.after(() => dir[Symbol.asyncDispose]());
    const write = (key: string, text: string) => writeFile(join(dir.path, `${key}.yaml`), text);
    let touches = 0;
    return {
      open: changed =>
        openDirectory(
          { path: '.' },
          { name: 'directory', folder: dir.path, kubeApi: () => assert.fail('no API server here') },
          changed,
        ),
      // Its time is the machine's.
      advance: () => sleep(50),
      async create(key) {
        await write(key, clusterFile(key));
        return key;
      },
      change: key => write(key, clusterFile(key).replace('192.0.2.1', '192.0.2.2')),
      touch: key => write(key, `${clusterFile(key)}# ${++touches}\n`),
      remove: key => rm(join(dir.path, `${key}.yaml`)),
      async createBroken() {
        await write('broken', 'clusters: [{ name: "not a name" }]\n');
        await writeFile(join(dir.path, 'binary.yaml'), new Uint8Array(100));
        await mkdir(join(dir.path, 'folder.yaml'));
        await symlink('nowhere', join(dir.path, 'dangling.yaml'));
      },
    };
  },
  { server: false },
);
