// `causeway import` as a user runs it: what goes to stdout and stderr, exit codes, several files, mistakes.

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { run } from '../../testbed/run.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';

const SAMPLES = join(import.meta.dirname, '../../src/import/samples');

async function causeway(
  ...args: readonly string[]
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const { code, stdout, stderr } = await run(causewayBin, args);
  return { code, stdout: stdout.toString(), stderr: stderr.toString() };
}

describe('causeway import', () => {
  let dir: TempDir;
  before(async () => {
    dir = await tempDir();
  });
  after(() => dir[Symbol.asyncDispose]());

  for (const [program, file] of [
    ['haproxy', 'linuxera.cfg'],
    ['haproxy', 'hypershift.cfg'],
    ['haproxy', 'maps.cfg'],
    ['haproxy', 'rules.cfg'],
    ['nginx', 'nginx.conf'],
    ['traefik', 'traefik-file.yaml'],
    ['traefik', 'ingress-routes.yaml'],
  ] as const) {
    test(`${program} ${file}: check accepts what it prints, and findings have positions`, async () => {
      const imported = await causeway('import', program, join(SAMPLES, file));
      assert.equal(imported.code, 0, imported.stderr);
      const yaml = dir.file(`${file}.yaml`);
      await writeFile(yaml, imported.stdout);
      const checked = await causeway('check', yaml);
      assert.equal(checked.code, 0, checked.stderr);
      assert.match(checked.stdout, /^ok: [1-9]/);
      const lines = imported.stderr.trimEnd().split('\n');
      assert.match(lines.at(-1) ?? '', /^\d+ clusters?, \d+ routes?; \d+ warnings?, \d+ not carried over$/);
      for (const line of lines.slice(0, -1))
        assert.match(line, /^[^:]+:\d+:\d+: (?:warning|not carried over): [^ ].*[^.]$/);
    });
  }

  test('several files and directories are one configuration, in the order of their names', async () => {
    const folder = dir.file('conf.d');
    await mkdir(folder);
    await writeFile(join(folder, '20-back.cfg'), 'backend b\n  server s 192.0.2.1:6443 check\n');
    await writeFile(join(folder, '10-front.cfg'), 'frontend f\n  bind :6443\n  default_backend b\n');
    await writeFile(join(folder, '.hidden.cfg'), 'nonsense\n');
    await writeFile(dir.file('global.cfg'), 'global\n  maxconn 1234\n');
    const { code, stdout } = await causeway('import', 'haproxy', dir.file('global.cfg'), folder);
    assert.equal(code, 0);
    assert.match(stdout, /connections: 1234/);
    assert.match(stdout, /backends: \[192\.0\.2\.1:6443\]/);
  });

  test('a file that cannot be read is one sentence with its place, and exit code 1', async () => {
    await writeFile(dir.file('open.cfg'), 'global\n  log "open\n');
    await writeFile(dir.file('open.conf'), 'stream {\n');
    await writeFile(dir.file('open.yaml'), 'tcp: [\n');
    const cases: [string, string, RegExp][] = [
      ['haproxy', 'open.cfg', /open\.cfg:2:7: this double quote is not closed/],
      ['nginx', 'open.conf', /open\.conf:1:8: this '\{' is not closed/],
      ['traefik', 'open.yaml', /open\.yaml:\d+:\d+: is not YAML: .*not closed/],
      ['haproxy', 'missing.cfg', /missing\.cfg: there is no such file/],
      ['traefik', '', /this directory has no configuration files|is not YAML/],
    ];
    for (const [program, file, pattern] of cases) {
      const { code, stdout, stderr } = await causeway('import', program, dir.file(file));
      assert.deepEqual([code, stdout, stderr.trimEnd().split('\n').length], [1, '', 1], stderr);
      assert.match(stderr, pattern);
    }
  });

  test('wrong usage is exit code 64 with one sentence', async () => {
    const cases: [string[], RegExp][] = [
      [['import'], /Name a program: haproxy, nginx, traefik/],
      [['import', 'haproxi', 'x'], /Did you mean 'haproxy'\?/],
      [['import', 'envoy', 'x'], /Unknown program 'envoy': haproxy, nginx, traefik/],
      [['import', 'haproxy'], /Name a file/],
      [['import', 'haproxy', '--fast', 'x'], /--fast/],
    ];
    for (const [args, pattern] of cases) {
      const { code, stdout, stderr } = await causeway(...args);
      assert.deepEqual([code, stdout], [64, ''], stderr);
      assert.match(stderr, pattern);
    }
  });
});
