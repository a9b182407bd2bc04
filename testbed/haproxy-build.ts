// HAProxy 3.0 beside the machine's own 2.6, which has no PROXY protocol TLVs: Debian 13's
// package with its libraries, downloaded by debootstrap and started by Debian 13's own loader.

import { chmod, copyFile, glob, mkdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { built } from './cache.ts';
import { debianMirror } from './debian-mirror.ts';
import { run } from './run.ts';

const SUITE = 'trixie';
const TIMEOUT_MS = 10 * 60_000;
/** By its own name: with -W, HAProxy executes argv[0] again, which must go through the loader too. */
const launcher = (loader: string) =>
  `#!/bin/sh\nlib=\${0%/*}/lib\nexec "$lib/${loader}" --library-path "$lib" --argv0 "$0" "$lib/haproxy" "$@"\n`;

/** The path of haproxy 3.0, downloaded if needed. */
export async function haproxyBuild(): Promise<string> {
  const directory = await built('haproxy-3.0', {
    pins: [SUITE, launcher('')],
    async build(directory, progress) {
      const system = join(directory, 'system');
      progress('downloading it with its libraries');
      // Download only: it needs no root, mounts and runs nothing, and debootstrap checks Debian's signatures.
      await succeed('debootstrap', [
        '--download-only',
        '--variant=minbase',
        '--include=haproxy',
        SUITE,
        system,
        await debianMirror(),
      ]);
      progress('unpacking');
      const unpacked = join(directory, 'unpacked');
      await mkdir(unpacked);
      for await (const archive of glob(join(system, 'var/cache/apt/archives/*.deb')))
        await succeed('dpkg-deb', ['--extract', archive, unpacked]);
      await keep(unpacked, directory);
      await Promise.all([system, unpacked].map(path => rm(path, { recursive: true })));
    },
  });
  return `${directory}/haproxy`;
}

/** Copies the program, its libraries and the loader, and writes the script that starts the program by that loader. */
async function keep(system: string, directory: string): Promise<void> {
  const [loader] = await Array.fromAsync(glob(join(system, 'usr/lib/*-linux-gnu*/ld-linux*.so.*')));
  if (loader === undefined) throw new Error('Debian 13 has no loader where it was expected');
  const libraries = loader.slice(0, -basename(loader).length - 1);
  const program = join(system, 'usr/sbin/haproxy');
  const listed = await succeed(loader, ['--library-path', libraries, '--list', program]);
  const lib = join(directory, 'lib');
  await mkdir(lib);
  // glibc loads libgcc_s itself when a thread ends.
  const names = new Set(['libgcc_s.so.1', basename(loader)]);
  for (const [, path] of listed.matchAll(/ => (\S+) /g)) names.add(basename(path));
  for (const name of names) await copyFile(join(libraries, name), join(lib, name));
  await copyFile(program, join(lib, 'haproxy'));
  const command = join(directory, 'haproxy');
  await writeFile(command, launcher(basename(loader)));
  await chmod(command, 0o755);
}

async function succeed(command: string, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(command, args, { timeoutMs: TIMEOUT_MS });
  if (code !== 0) throw new Error(`${basename(command)} ended with code ${code}\n${stdout}${stderr}`);
  return stdout.toString();
}
