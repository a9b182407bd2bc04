// A minimal Debian 13, as installers and images start from it: what the packages of packaging/ are tried on.

import { copyFile, glob, mkdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { built } from './cache.ts';
import { debianMirror } from './debian-mirror.ts';
import { missingPrograms } from './packages.ts';
import { run } from './run.ts';

const SUITE = 'trixie';
/** Our package depends on them, and a minimal Debian has neither. */
const DEPENDENCIES = ['adduser', 'libatomic1'];
const TIMEOUT_MS = 10 * 60_000;

export interface DebianBuild {
  /** The root file system. */
  readonly root: string;
  /** The packages that our own depends on, not installed in it. */
  readonly dependencies: readonly string[];
}

/** For the `skip` option of a test. */
export function missingDebian(): string | false {
  if (process.getuid?.() !== 0) return 'another root file system needs root';
  return missingPrograms('debootstrap', 'dpkg-deb', 'chroot', 'unshare');
}

export async function debianBuild(): Promise<DebianBuild> {
  const directory = await built('debian-13', {
    pins: [SUITE, ...DEPENDENCIES],
    async build(directory, progress) {
      const root = join(directory, 'root');
      progress('downloading and installing it');
      const include = `--include=${DEPENDENCIES.join(',')}`;
      await succeed('debootstrap', ['--variant=minbase', include, SUITE, root, await debianMirror()]);
      const archives = join(root, 'var/cache/apt/archives');
      const packages = join(directory, 'packages');
      await mkdir(packages);
      for await (const file of glob(join(archives, `{${DEPENDENCIES.join(',')}}_*.deb`)))
        await copyFile(file, join(packages, basename(file)));
      await succeed('chroot', [root, 'dpkg', '--purge', ...DEPENDENCIES]);
      await rm(archives, { recursive: true });
    },
  });
  const dependencies = await Array.fromAsync(glob(join(directory, 'packages/*.deb')));
  return { root: join(directory, 'root'), dependencies };
}

async function succeed(command: string, args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await run(command, args, { timeoutMs: TIMEOUT_MS });
  if (code !== 0) throw new Error(`${command} ended with code ${code}\n${stdout}${stderr}`);
}
