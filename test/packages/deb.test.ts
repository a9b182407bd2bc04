// `npm run deb`, in the life of a machine: installed, configured, upgraded, removed, purged.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { appendFile, chmod, copyFile, readFile, stat, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { HOST_ARCH } from '../../packaging/arch.ts';
import { buildDeb } from '../../packaging/build-deb.ts';
import { type CleanRoot, debianRoot, type EnterOptions } from '../../testbed/clean-root.ts';
import { missingDebian } from '../../testbed/debian-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { followUserPath, makeRunDir, upgradeUnderLoad } from './user-path.ts';

const DATE = 1_700_000_000;
const CONFIG = 'etc/causeway/causeway.yaml';
/** As the unit has it: no process of others, and nothing of the system (ProtectProc, ProcSubset). */
const AS_SERVICE = { user: 'causeway:causeway', readOnly: true, proc: 'hidepid=invisible,subset=pid' };

describe('the Debian package', { skip: missingDebian() || missingPrograms('lintian', 'strip') }, () => {
  let dir: TempDir;
  let root: CleanRoot;
  const dpkg = async (...args: string[]) => {
    const { code, stdout, stderr } = await root.run(['dpkg', ...args]);
    assert.equal(code, 0, `dpkg ${args.join(' ')}:\n${stdout}${stderr}`);
    return `${stdout}${stderr}`;
  };

  before(async () => {
    dir = await tempDir();
    root = await debianRoot();
    for (const version of ['1.0.0', '1.0.1']) {
      const options = { arch: HOST_ARCH, date: DATE, version, compression: 'none' } as const;
      const file = dir.file(`causeway_${version}.deb`);
      await buildDeb(dir.file('tree'), file, options);
      await copyFile(file, root.file(`packages/causeway_${version}.deb`));
    }
  });

  after(async () => {
    await root?.[Symbol.asyncDispose]();
    await dir?.[Symbol.asyncDispose]();
  });

  test('has no errors by lintian', async () => {
    await chmod(dir.path, 0o755);
    // Compressing it takes half a minute; what is in it is the same.
    const own = 'uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball';
    const flags = ['--fail-on', 'error', '--allow-root', '--suppress-tags', own];
    const args = [...flags, dir.file('causeway_1.0.0.deb')];
    const { code, stdout, stderr } = await run('lintian', args, { env: { TMPDIR: dir.path } });
    assert.equal(code, 0, `${stdout}${stderr}`);
  });

  test('is installed with its user, its units and a file that is valid', async () => {
    const { stdout } = await root.run(['sh', '-c', 'dpkg --install /packages/*_all.deb /packages/lib*.deb']);
    assert.match(stdout.toString(), /Setting up libatomic1/);
    await dpkg('--install', '/packages/causeway_1.0.0.deb');
    assert.match(
      await readFile(root.file('etc/passwd'), 'utf8'),
      /^causeway:.*:\/var\/lib\/causeway:.*nologin$/m,
    );
    assert.equal((await stat(root.file('etc/causeway'))).mode & 0o777, 0o750);
    assert.equal((await dpkg('--verify', 'causeway')).trim(), '');
    const checked = await root.run(['causeway', 'check', '-c', `/${CONFIG}`], AS_SERVICE);
    assert.equal(checked.code, 0, checked.stderr);
    for (const unit of ['causeway.service', 'causeway-agent@.service'])
      assert.ok(existsSync(root.file(`usr/lib/systemd/system/${unit}`)), unit);
  });

  test('has units that systemd understands, and that expose little', {
    skip: missingPrograms('systemd-analyze'),
  }, async () => {
    // Targets that every service has by default; a minimal Debian has no systemd.
    await run('cp', ['-a', '-n', '/lib/systemd/system/.', root.file('usr/lib/systemd/system')]);
    await writeFile(root.file('etc/causeway/agent-a.env'), '');
    for (const unit of ['causeway.service', 'causeway-agent@a.service']) {
      const verified = await run('systemd-analyze', ['verify', '--man=no', `--root=${root.path}`, unit]);
      assert.deepEqual([verified.code, foreign(verified.stderr)], [0, ''], unit);
      const asked = ['security', '--offline=true', '--threshold=20', `--root=${root.path}`, unit];
      const { code, stdout, stderr } = await run('systemd-analyze', asked);
      assert.equal(code, 0, `${stdout}${stderr}`);
    }
  });

  const installed = (options: EnterOptions) => ({
    run: (args: readonly string[]) => root.run(['causeway', ...args], options),
    start: (args: readonly string[]) => root.start(['causeway', ...args], options),
    async write(text: string) {
      await writeFile(root.file(CONFIG), text);
      return `/${CONFIG}`;
    },
  });

  test('serves as its user, in what the unit leaves of the system', async () => {
    await using _serving = await followUserPath(installed(AS_SERVICE));
  });

  test('keeps the file over an upgrade, under load, and the new version takes over', async () => {
    // As RuntimeDirectory= makes it.
    const [, , uid] =
      /^causeway:.*$/m.exec(await readFile(root.file('etc/passwd'), 'utf8'))?.[0].split(':') ?? [];
    await makeRunDir(root, Number(uid));
    const service = installed({ ...AS_SERVICE, readOnly: false });
    await using serving = await followUserPath(service);
    await appendFile(root.file(CONFIG), '# mine\n');
    const before = await readFile(root.file(CONFIG), 'utf8');
    const upgrade = async () => void (await dpkg('--install', '/packages/causeway_1.0.1.deb'));
    await upgradeUnderLoad(serving, upgrade, service);
    assert.equal(await readFile(root.file(CONFIG), 'utf8'), before);
    assert.match((await root.run(['dpkg-query', '--show', 'causeway'])).stdout.toString(), /1\.0\.1/);
    assert.equal((await root.run(['causeway', 'check', '-c', `/${CONFIG}`], AS_SERVICE)).code, 0);
  });

  test('leaves the file when it is removed, and nothing of ours when it is purged', async () => {
    await dpkg('--remove', 'causeway');
    assert.equal(existsSync(root.file('usr/bin/causeway')), false);
    assert.match(await readFile(root.file(CONFIG), 'utf8'), /# mine/);
    await run('rm', [root.file('etc/causeway/agent-a.env')]);
    await dpkg('--purge', 'causeway');
    for (const name of ['etc/causeway', 'usr/lib/causeway', 'var/lib/causeway', 'usr/share/doc/causeway'])
      assert.equal(existsSync(root.file(name)), false, name);
  });
});

/** Of what it loads besides, such as units that this root does not have. */
function foreign(stderr: string): string {
  return stderr
    .split('\n')
    .filter(line => /causeway/.test(line))
    .join('\n');
}
