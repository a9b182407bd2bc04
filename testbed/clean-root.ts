// Another root file system for one test: a minimal Debian 13, or an empty folder to unpack an image in. Programs run in
// it as in a container: with /proc and /dev, in a mount namespace of their own, on this machine's network.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { debianBuild } from './debian-build.ts';
import { findProgram } from './packages.ts';
import { type Program, startProgram } from './program.ts';
import { type RunResult, run } from './run.ts';
import { tempDir } from './temp-dir.ts';

/**
 * The mounts end with the program. It keeps the process id, so signals reach it. `$1` is the root, `$2` `ro` or `rw`,
 * `$3` options of /proc; the rest is the command.
 */
const ENTER = `
set -e
root=$1; access=$2; proc=$3; shift 3
mount --bind "$root" "$root"
mount -t proc -o "$proc" proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
[ "$access" = rw ] || mount -o remount,bind,ro "$root"
cd "$root"
exec "$@"
`;

export interface EnterOptions {
  /** `user:group`, numbers or names in there. Default: root. */
  readonly user?: string;
  /** /tmp stays writable. */
  readonly readOnly?: boolean;
  /** Mount options of /proc. Default: none. */
  readonly proc?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface CleanRoot extends AsyncDisposable {
  readonly path: string;
  /** A path in it, as this process sees it. */
  file(name: string): string;
  run(argv: readonly string[], options?: EnterOptions): Promise<RunResult>;
  /** Starts a program of ours and waits for its `ready`. */
  start(argv: readonly string[], options?: EnterOptions): Promise<Program>;
}

/** A copy of a minimal Debian 13. Our package's dependencies are in /packages. */
export async function debianRoot(): Promise<CleanRoot> {
  const { root, dependencies } = await debianBuild();
  const clean = await emptyRoot();
  const packages = clean.file('packages');
  await succeed('cp', ['--archive', `${root}/.`, clean.path]);
  await mkdir(packages);
  await succeed('cp', [...dependencies, packages]);
  return clean;
}

/** An empty folder with the mount points. */
export async function emptyRoot(): Promise<CleanRoot> {
  const dir = await tempDir();
  const path = dir.file('root');
  for (const name of ['', 'proc', 'dev', 'tmp']) await mkdir(join(path, name));
  const enter = (argv: readonly string[], options: EnterOptions) => {
    const { user = '0:0', readOnly = false, proc = 'defaults', env = {} } = options;
    const settings = [path, readOnly ? 'ro' : 'rw', proc];
    const inside = {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      TMPDIR: '/tmp',
      ...env,
    };
    const variables = Object.entries(inside).map(([name, value]) => `${name}=${value}`);
    // It and `unshare` are found here, the program in there.
    const chroot = [findProgram('chroot') ?? 'chroot', `--userspec=${user}`, path, ...argv];
    return {
      command: 'env',
      args: [
        '-i',
        ...variables,
        findProgram('unshare') ?? 'unshare',
        '--mount',
        'sh',
        '-c',
        ENTER,
        'enter',
        ...settings,
        ...chroot,
      ],
    };
  };
  return {
    path,
    file: name => join(path, name),
    run(argv, options = {}) {
      const { command, args } = enter(argv, options);
      return run(command, args);
    },
    start(argv, options = {}) {
      return startProgram({ ...enter(argv, options), ready: { log: /"msg":"ready"/ } });
    },
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
}

async function succeed(command: string, args: readonly string[]): Promise<void> {
  const { code, stderr } = await run(command, args);
  if (code !== 0) throw new Error(`${command}: ${stderr}`);
}
