// packaging/systemd/reload, the ExecReload of causeway.service, with a stand-in for the program: when it rereads, when
// the new program takes over, and what that one gets. (What systemd makes of it was seen by hand, with systemd 252.)

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, copyFile, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../../packaging/source-tree.ts';
import { startProgram } from '../../testbed/program.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';

const ARGS = ['run', '-c', '/etc/causeway/causeway.yaml'];
/** Prints which signals arrive; its executable is the folder's `node`. */
const MAIN = "trap 'echo reread' HUP; echo up; while :; do sleep 0.05; done";

/** The parts of the folder that it looks at. */
async function folder(): Promise<TempDir> {
  const dir = await tempDir();
  for (const name of ['bin', 'runtime', 'systemd']) await mkdir(dir.file(name));
  await copyFile('/bin/sh', dir.file('runtime/node'));
  await copyFile(join(ROOT, 'packaging/systemd/reload'), dir.file('systemd/reload'));
  const told = `#!/bin/sh\nenv > "$OUT.part"; echo "ARGS=$*" >> "$OUT.part"; mv "$OUT.part" "$OUT"\n`;
  await writeFile(dir.file('bin/causeway'), told);
  await chmod(dir.file('bin/causeway'), 0o755);
  return dir;
}

/** Not by `run()`, which ends what a program leaves running. */
function reload(dir: TempDir, mainPid: number): void {
  const own = { MAINPID: String(mainPid), OUT: dir.file('out'), WATCHDOG_PID: '1' };
  const options = { env: { ...process.env, ...own }, stdio: 'ignore' } as const;
  assert.equal(spawnSync(dir.file('systemd/reload'), ARGS, options).status, 0);
}

function startMain(dir: TempDir, env: Record<string, string> = {}) {
  return startProgram({ command: dir.file('runtime/node'), args: ['-c', MAIN], env, ready: { log: /^up/m } });
}

test('reload has the file reread while the program on disk is the one that runs', async () => {
  await using dir = await folder();
  await using main = await startMain(dir);
  reload(dir, main.pid);
  await main.logged(/^reread/m);
});

test('reload starts the new program once the old one was replaced on disk, with its watchdog', async () => {
  await using dir = await folder();
  await using main = await startMain(dir, { WATCHDOG_USEC: '60000000' });
  // As dpkg does it.
  await copyFile('/bin/sh', dir.file('runtime/node.dpkg-new'));
  await rename(dir.file('runtime/node.dpkg-new'), dir.file('runtime/node'));
  reload(dir, main.pid);
  const told = await until('the new program', () => readFile(dir.file('out'), 'utf8').catch(() => undefined));
  assert.match(told, /^ARGS=run -c \/etc\/causeway\/causeway\.yaml --replace$/m);
  assert.match(told, /^WATCHDOG_USEC=60000000$/m);
  assert.doesNotMatch(told, /^WATCHDOG_PID=/m);
  assert.doesNotMatch(main.log(), /reread/);
});
