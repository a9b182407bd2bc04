// The root file system of the container image: the folder of the program in /usr/lib/causeway, and the little that it
// needs around it, taken from this machine: glibc and the libraries of Node, a shell for bin/causeway, `ip` for the
// agent's `--local-address`, and the certificate authorities.

import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { HOST_ARCH, TRIPLET } from './arch.ts';
import { buildFolder } from './build-folder.ts';
import { LIBRARIES, loadedBy } from './libraries.ts';
import { tool } from './tool.ts';

/** The user that distroless images call `nonroot`. */
export const USER_ID = 65532;
export const PROGRAM = 'usr/lib/causeway';
/** Where the user may write, if it is mounted writable. */
export const STATE = 'var/lib/causeway';

const AUTHORITIES = '/etc/ssl/certs/ca-certificates.crt';
const FILES: Readonly<Record<string, string>> = {
  'etc/passwd': `root:x:0:0:root:/:/usr/sbin/nologin\ncauseway:x:${USER_ID}:${USER_ID}:Causeway:/${STATE}:/usr/sbin/nologin\n`,
  'etc/group': `root:x:0:\ncauseway:x:${USER_ID}:\n`,
  'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
};
/** As on Debian. Programs know these paths. */
const LINKS: Readonly<Record<string, string>> = {
  bin: 'usr/bin',
  lib: 'usr/lib',
  lib64: 'usr/lib64',
  sbin: 'usr/sbin',
};
/** Mount points and folders of users. */
const FOLDERS = ['dev', 'etc/causeway', 'proc', 'run', 'sys', 'tmp', 'usr/lib64', 'usr/sbin', STATE];

/** Empties and fills the folder. Files belong to whoever calls this. */
export async function buildRoot(root: string): Promise<void> {
  await rm(root, { recursive: true, force: true });
  for (const name of FOLDERS) await mkdir(join(root, name), { recursive: true });
  for (const [name, target] of Object.entries(LINKS)) await symlink(target, join(root, name));
  for (const [name, text] of Object.entries(FILES)) await writeFile(join(root, name), text);
  await copyAuthorities(root);

  const program = join(root, PROGRAM);
  await buildFolder(program, HOST_ARCH);
  // Its libraries are in their usual place here.
  for (const group of Object.keys(LIBRARIES)) await rm(join(program, 'runtime', group), { recursive: true });
  await rm(join(program, 'systemd'), { recursive: true });
  await mkdir(join(root, 'usr/bin'), { recursive: true });
  await writeFile(join(root, 'usr/bin/causeway'), LAUNCHER);
  await copyProgram('/bin/sh', join(root, 'usr/bin/sh'));
  const ip = ['/usr/bin/ip', '/bin/ip', '/usr/sbin/ip', '/sbin/ip'].find(existsSync);
  if (ip !== undefined) await copyProgram(ip, join(root, 'usr/bin/ip'));
  else process.stderr.write('image: without ip, which is not on this machine (Debian: iproute2)\n');
  await copyLibraries(root, [join(program, 'runtime/node'), '/bin/sh', ...(ip === undefined ? [] : [ip])]);

  await tool('chmod', ['--recursive', 'u=rwX,go=rX', root]);
  await chmod(join(root, 'usr/bin/causeway'), 0o755);
  await chmod(join(root, 'tmp'), 0o1777);
  await chmod(join(root, STATE), 0o700);
}

/** A link would need readlink (bin/causeway). */
const LAUNCHER = `#!/bin/sh\nexec /${PROGRAM}/bin/causeway "$@"\n`;

async function copyAuthorities(root: string): Promise<void> {
  if (!existsSync(AUTHORITIES)) {
    throw new Error(`${AUTHORITIES} is not on this machine; on Debian it is in the package ca-certificates`);
  }
  await mkdir(join(root, dirname(AUTHORITIES)), { recursive: true });
  await cp(AUTHORITIES, join(root, AUTHORITIES), { dereference: true });
}

async function copyLibraries(root: string, programs: readonly string[]): Promise<void> {
  const folder = join(root, 'usr/lib', TRIPLET[HOST_ARCH]);
  await mkdir(folder, { recursive: true });
  for (const { name, path } of (await Promise.all(programs.map(loadedBy))).flat()) {
    const isLoader = name.startsWith('ld-linux');
    // Programs name the loader by its path.
    const target = isLoader ? join(root, path.replace(/^\/(lib(?:64)?)\//, '/usr/$1/')) : join(folder, name);
    await cp(path, target, { dereference: true });
    await copyCopyright(path, root);
  }
}

async function copyProgram(path: string, target: string): Promise<void> {
  await cp(path, target, { dereference: true });
  await copyCopyright(path, dirname(dirname(dirname(target))));
}

/** What the licences ask for: their texts come along. */
async function copyCopyright(path: string, root: string): Promise<void> {
  const owner = (await owners(path)).map(line => line.replace(/(?::\w+)?: .*/, ''))[0];
  const file = `/usr/share/doc/${owner}/copyright`;
  if (owner === undefined || !existsSync(file)) return;
  await mkdir(join(root, dirname(file)), { recursive: true });
  await cp(file, join(root, file), { dereference: true });
}

/** dpkg knows a file by the path of its package, which may be from before /lib became a link to /usr/lib. */
async function owners(path: string): Promise<string[]> {
  const real = await tool('realpath', [path, ...(basename(path) === 'sh' ? ['/bin/dash'] : [])]);
  const names = real.split('\n').filter(Boolean);
  for (const name of names.flatMap(name => [name, name.replace(/^\/usr/, '')])) {
    const found = await tool('dpkg', ['--search', name]).catch(() => '');
    if (found !== '') return found.split('\n').filter(Boolean);
  }
  return [];
}
