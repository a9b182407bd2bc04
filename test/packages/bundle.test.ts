// `npm run bundle`, as a user meets it: unpacked on a system that has neither Node nor npm.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { HOST_ARCH, TRIPLET } from '../../packaging/arch.ts';
import { sha256 } from '../../packaging/archive.ts';
import { type Bundle, buildBundle, buildBundleTar } from '../../packaging/build-bundle.ts';
import { VERSION } from '../../packaging/source-tree.ts';
import { type CleanRoot, debianRoot } from '../../testbed/clean-root.ts';
import { missingDebian } from '../../testbed/debian-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { followUserPath, makeRunDir, upgradeUnderLoad } from './user-path.ts';

const DATE = 1_700_000_000;
const FOLDER = `/opt/causeway-${VERSION}`;
const COMMAND = `${FOLDER}/bin/causeway`;

describe('the bundle', { skip: missingDebian() || missingPrograms('strip') }, () => {
  let dir: TempDir;
  let built: Bundle;
  let root: CleanRoot;

  before(async () => {
    dir = await tempDir();
    built = await buildBundle(dir.file('dist'), HOST_ARCH, DATE);
    root = await debianRoot();
    await mkdir(root.file('opt'), { recursive: true });
    const { code, stderr } = await run('tar', [
      '--extract',
      '--no-same-owner',
      `--file=${dir.file(`dist/${built.name}`)}`,
      `--directory=${root.file('opt')}`,
    ]);
    assert.equal(code, 0, stderr);
  });

  after(async () => {
    await root?.[Symbol.asyncDispose]();
    await dir?.[Symbol.asyncDispose]();
  });

  const write = async (text: string) => {
    await mkdir(root.file('etc/causeway'), { recursive: true });
    await writeFile(root.file('etc/causeway/causeway.yaml'), text);
    return '/etc/causeway/causeway.yaml';
  };

  test('has its name, its size and its sum', async () => {
    assert.equal(built.name, `causeway-${VERSION}-linux-${HOST_ARCH}.tar.gz`);
    assert.ok(built.packed <= 45e6, `${built.packed} bytes packed`);
    assert.ok(built.unpacked <= 150e6, `${built.unpacked} bytes unpacked`);
    const sums = await readFile(dir.file('dist/SHA256SUMS'), 'utf8');
    assert.equal(sums, `${await sha256(dir.file(`dist/${built.name}`))}  ${built.name}\n`);
  });

  test('has the same bytes when it is built again', async () => {
    const again = dir.file('again.tar');
    await buildBundleTar(again, HOST_ARCH, DATE);
    const first = gunzipSync(await readFile(dir.file(`dist/${built.name}`)));
    assert.equal(createHash('sha256').update(first).digest('hex'), await sha256(again));
  });

  test('brings the licenses of what it brings', async () => {
    const licenses = await readFile(root.file(`${FOLDER}/lib/LICENSES.txt`), 'utf8');
    for (const name of ['zod', 'yaml', 'pino', 'hono', '@kubernetes/client-node', 'preact', 'uplot'])
      assert.match(licenses, new RegExp(`^${name} \\d`, 'm'));
    for (const name of ['LICENSE', 'runtime/LICENSE-node.txt', 'runtime/LICENSE-libraries.txt'])
      assert.ok(existsSync(root.file(`${FOLDER}/${name}`)), name);
  });

  test('serves on a minimal Debian, for any user and from a link', async () => {
    await symlink(COMMAND, root.file('usr/local/bin/causeway'));
    const user = '65534:65534';
    const version = await root.run(['causeway', '--version'], { user });
    assert.deepEqual([version.code, version.stdout.toString()], [0, `causeway ${VERSION}\n`], version.stderr);
    await using _serving = await followUserPath({
      run: args => root.run(['causeway', ...args], { user, readOnly: true }),
      start: args => root.start(['causeway', ...args], { user, readOnly: true }),
      write,
    });
  });

  test('takes over from the one before, under load', async () => {
    const user = '65534:65534';
    await makeRunDir(root, 65_534);
    const installed = {
      run: (args: readonly string[]) => root.run([COMMAND, ...args], { user }),
      start: (args: readonly string[]) => root.start([COMMAND, ...args], { user }),
      write,
    };
    await using serving = await followUserPath(installed);
    const next = `${FOLDER}-next`;
    const unpack = async () => {
      const { code, stderr } = await run('cp', ['-a', root.file(FOLDER), root.file(next)]);
      assert.equal(code, 0, stderr);
    };
    await upgradeUnderLoad(serving, unpack, {
      start: args => root.start([`${next}/bin/causeway`, ...args], { user }),
    });
  });

  test('runs its demo there, with every way in', async () => {
    const { code, stdout, stderr } = await root.run([COMMAND, 'demo', '--once']);
    assert.equal(code, 0, `${stdout}${stderr}`);
  });

  test('asks exec plugins of kubeconfigs, with what is left of the Kubernetes client', async () => {
    const credential = {
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'shown' },
    };
    const exec = { apiVersion: credential.apiVersion, command: 'echo', args: [JSON.stringify(credential)] };
    const kubeconfig = JSON.stringify({
      'current-context': 'a',
      contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
      clusters: [{ name: 'a', cluster: { server: 'https://a.test' } }],
      users: [{ name: 'a', user: { exec: { ...exec, interactiveMode: 'Never' } } }],
    });
    const program = `
      const [name] = require('node:fs').globSync('plugin-credentials-*.js', { cwd: '${FOLDER}/lib' });
      import('${FOLDER}/lib/' + name)
        .then(({ pluginCredentials }) => pluginCredentials(${JSON.stringify(kubeconfig)}, undefined, '/')())
        .then(({ headers }) => console.log(headers.Authorization));`;
    const env = { LD_LIBRARY_PATH: `${FOLDER}/runtime/atomic` };
    const { stdout, stderr } = await root.run([`${FOLDER}/runtime/node`, '-e', program], { env });
    assert.equal(stdout.toString(), 'Bearer shown\n', stderr);
  });

  test('needs no library but glibc', async () => {
    const libraries = root.file(`usr/lib/${TRIPLET[HOST_ARCH]}`);
    for (const name of ['libstdc++.so.6', 'libgcc_s.so.1', 'libatomic.so.1'])
      await rm(`${libraries}/${name}`, { force: true });
    const { code, stdout, stderr } = await root.run([COMMAND, '--version']);
    assert.deepEqual([code, stdout.toString()], [0, `causeway ${VERSION}\n`], stderr);
  });
});
