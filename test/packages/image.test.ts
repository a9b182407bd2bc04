// `npm run image`: what the layout says of itself, and its programs as a container runtime starts them: as its user, on
// a read-only root.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { sha256, sizeOf } from '../../packaging/archive.ts';
import { buildImage } from '../../packaging/build-image.ts';
import { buildRoot } from '../../packaging/build-root.ts';
import { imageConfig } from '../../packaging/image-config.ts';
import { manifest, ROOT, VERSION } from '../../packaging/source-tree.ts';
import { type CleanRoot, emptyRoot } from '../../testbed/clean-root.ts';
import { missingDebian } from '../../testbed/debian-build.ts';
import { logLines } from '../../testbed/log-lines.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { Backend, hello, servedBy } from '../features/given.ts';
import { followUserPath } from './user-path.ts';

const DATE = 1_700_000_000;
const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

interface Config {
  readonly config: Record<string, unknown>;
  readonly rootfs: { readonly diff_ids: readonly string[] };
}

describe('the image', { skip: missingDebian() || missingPrograms('strip', 'ip') }, () => {
  let dir: TempDir;
  let root: CleanRoot;
  let layers: readonly Descriptor[];
  let config: Config;
  const blob = ({ digest }: Descriptor) => dir.file(`image/blobs/${digest.replace(':', '/')}`);
  const json = async <T>(descriptor: Descriptor): Promise<T> =>
    JSON.parse(await readFile(blob(descriptor), 'utf8')) as T;
  /** As its configuration says. */
  const asUser = {
    user: '65532:65532',
    readOnly: true,
    env: { PATH: '/usr/bin', HOME: '/var/lib/causeway' },
  };

  before(async () => {
    dir = await tempDir();
    await buildRoot(dir.file('built'));
    await buildImage(dir.file('image'), dir.file('built'), DATE);
    const index = JSON.parse(await readFile(dir.file('image/index.json'), 'utf8'));
    const image = await json<{ config: Descriptor; layers: Descriptor[] }>(index.manifests[0]);
    layers = image.layers;
    config = await json<Config>(image.config);
    root = await emptyRoot();
    for (const layer of layers) {
      const { code, stderr } = await run('tar', ['-xzpf', blob(layer), '--numeric-owner', '-C', root.path]);
      assert.equal(code, 0, stderr);
    }
  });

  after(async () => {
    await root?.[Symbol.asyncDispose]();
    await dir?.[Symbol.asyncDispose]();
  });

  test('is an OCI layout whose digests and sizes hold', async () => {
    const layout = JSON.parse(await readFile(dir.file('image/oci-layout'), 'utf8'));
    assert.deepEqual(layout, { imageLayoutVersion: '1.0.0' });
    for (const layer of layers) {
      assert.equal(layer.digest, `sha256:${await sha256(blob(layer))}`);
      assert.equal(layer.size, await sizeOf(blob(layer)));
    }
    await Promise.all(
      layers.map(async (layer, index) => {
        const plain = dir.file(`layer-${index}`);
        await writeFile(plain, gunzipSync(await readFile(blob(layer))));
        assert.equal(config.rootfs.diff_ids[index], `sha256:${await sha256(plain)}`);
      }),
    );
    // What an upgrade downloads, as long as Node stays.
    assert.ok((layers[1] as Descriptor).size < 3e6, `${layers[1]?.size} bytes`);
  });

  test('runs causeway as 65532', async () => {
    assert.deepEqual(config.config, imageConfig(manifest));
    assert.deepEqual(config.config.Entrypoint, ['causeway']);
    assert.equal(config.config.User, '65532:65532');
    const id = await root.run(['causeway', '--version'], asUser);
    assert.deepEqual([id.code, id.stdout.toString()], [0, `causeway ${VERSION}\n`], id.stderr);
  });

  test('leaves its user nothing to write but /tmp and the state directory', async () => {
    const writable = ['-perm', '/o+w', '-o', '-uid', '65532', '-o', '-gid', '65532'];
    const { stdout } = await run('find', [root.path, '!', '-type', 'l', '(', ...writable, ')']);
    const found = stdout.toString().trim().split('\n').toSorted();
    assert.deepEqual(found, [root.file('tmp'), root.file('var/lib/causeway')].toSorted());
    const { stdout: special } = await run('find', [root.path, '-perm', '/u+s,g+s']);
    assert.equal(special.toString(), '');
  });

  test('serves on a read-only root, and its health command sees it', async () => {
    await using _serving = await followUserPath({
      run: args => root.run(['causeway', ...args], asUser),
      start: args => root.start(['causeway', ...args], asUser),
      async write(text) {
        await writeFile(root.file('etc/causeway/causeway.yaml'), text);
        return '/etc/causeway/causeway.yaml';
      },
    });
    const nobody = await root.run(['causeway', 'status', '--admin', 'http://127.0.0.1:1'], asUser);
    assert.equal(nobody.code, 1);
  });

  test('runs the agent, through which a connection reaches its cluster', async () => {
    await using backend = await Backend.start({ name: 'tenant' });
    await writeFile(
      root.file('etc/causeway/causeway.yaml'),
      `listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1] }]\nadmin: { on: "off" }\nclusters:
  - { name: a, id: ${ID}, api: { hosts: [a.test], backends: ["${backend.text}"] } }\n`,
    );
    const file = '/etc/causeway/causeway.yaml';
    await using gateway = await root.start(['causeway', 'run', '-c', file], asUser);
    const where = async (program: typeof gateway) =>
      ((await logLines(program).line(({ msg }) => msg === 'ready')).listen as string[])[0];
    const flags = ['--cluster-id', ID, '--gateway', await where(gateway), '--uplink', 'proxy'];
    await using agent = await root.start(['causeway', 'agent', ...flags, '--on', '127.0.0.1:0'], asUser);
    const port = Number((await where(agent)).split(':').at(-1));
    assert.equal(await servedBy(port, hello('kubernetes.default.svc')), 'tenant');
  });

  test('brings `ip` for --local-address, and the authorities', async () => {
    const ip = await root.run(['ip', '-Version'], asUser);
    assert.equal(ip.code, 0, ip.stderr);
    const script = 'process.exit(require("node:tls").getCACertificates("system").length > 50 ? 0 : 1)';
    const node = ['/usr/lib/causeway/runtime/node', '--use-system-ca', '-e', script];
    assert.equal((await root.run(node, asUser)).code, 0);
  });

  test('is what the Containerfile says', async () => {
    const text = (await readFile(join(ROOT, 'Containerfile'), 'utf8')).replaceAll('\\\n', ' ');
    const last = text.slice(text.lastIndexOf('FROM scratch'));
    const said = (instruction: string) =>
      new RegExp(`^${instruction} (.*)$`, 'm').exec(last)?.[1]?.trim() ?? assert.fail(instruction);
    const { Entrypoint, Cmd, User, WorkingDir, StopSignal, ExposedPorts, Env, Healthcheck, Labels } =
      imageConfig(manifest);
    assert.deepEqual(JSON.parse(said('ENTRYPOINT')), Entrypoint);
    assert.deepEqual(JSON.parse(said('CMD')), Cmd);
    assert.equal(said('USER'), User);
    assert.equal(said('WORKDIR'), WorkingDir);
    assert.equal(said('STOPSIGNAL'), StopSignal);
    assert.deepEqual(said('EXPOSE').split(' '), Object.keys(ExposedPorts));
    assert.deepEqual(said('ENV').split(' '), Env);
    assert.deepEqual(JSON.parse(said('HEALTHCHECK').replace(/^.*CMD /, '')), Healthcheck.Test.slice(1));
    for (const [name, value] of Object.entries(Labels)) {
      if (!name.endsWith('.version')) assert.ok(said('LABEL').includes(`${name}="${value}"`), name);
    }
  });
});
