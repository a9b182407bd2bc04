// The shared libraries that Node needs besides glibc. This machine's own for its own architecture; for another one,
// those of the same Debian release, downloaded by apt into a folder of its own.

import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Arch } from './arch.ts';
import { DEBIAN_ARCH, HOST_ARCH, TRIPLET } from './arch.ts';
import { CACHE } from './source-tree.ts';
import { tool } from './tool.ts';

/** By the folder of the bundle that they go to, which bin/causeway adds one by one as needed. */
export const LIBRARIES = {
  atomic: ['libatomic.so.1'],
  cxx: ['libgcc_s.so.1', 'libstdc++.so.6'],
} as const;

/** Debian's packages with them. */
const PACKAGES = ['libatomic1', 'libgcc-s1', 'libstdc++6'];

interface Library {
  readonly name: string;
  readonly path: string;
}

/** The libraries that a program loads on this machine, with the loader. */
export async function loadedBy(program: string): Promise<Library[]> {
  const listed = await tool('ldd', [program]);
  const paths = [...listed.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map(([, path]) => path as string);
  const missing = /^\s*(\S+) => not found$/m.exec(listed)?.[1];
  if (missing !== undefined)
    throw new Error(`${basename(program)} needs ${missing}, which is not on this machine`);
  return paths.map(path => ({ name: basename(path), path }));
}

/** The three libraries for the architecture, and where the licence texts of their packages are. */
export async function librariesFor(
  arch: Arch,
  node: string,
): Promise<{ libraries: Library[]; docs: string }> {
  const names: readonly string[] = Object.values(LIBRARIES).flat();
  if (arch === HOST_ARCH) {
    const libraries = (await loadedBy(node)).filter(({ name }) => names.includes(name));
    return { libraries, docs: '/usr/share/doc' };
  }
  const root = await downloaded(arch);
  const folders = [`usr/lib/${TRIPLET[arch]}`, `lib/${TRIPLET[arch]}`].map(folder => join(root, folder));
  const libraries = names.map(name => {
    const path = folders.map(folder => join(folder, name)).find(existsSync);
    if (path === undefined)
      throw new Error(`Debian's packages for ${arch} have no ${name} where it was expected`);
    return { name, path };
  });
  return { libraries, docs: join(root, 'usr/share/doc') };
}

/** apt with its own lists and cache: the machine's own stay as they are, and no root is needed. */
async function downloaded(arch: Arch): Promise<string> {
  const target = join(CACHE, `libraries-${arch}`);
  if (existsSync(target)) return target;
  await mkdir(CACHE, { recursive: true });
  const folder = await mkdtemp(join(CACHE, 'apt-'));
  try {
    const state = join(folder, 'state');
    const root = join(folder, 'root');
    await Promise.all([mkdir(join(state, 'lists/partial'), { recursive: true }), mkdir(root)]);
    await writeFile(join(state, 'status'), '');
    const options = {
      'APT::Architecture': DEBIAN_ARCH[arch],
      'APT::Architectures': DEBIAN_ARCH[arch],
      'APT::Sandbox::User': '',
      'Dir::State': state,
      'Dir::State::status': join(state, 'status'),
      'Dir::Cache': join(folder, 'cache'),
    };
    const own = Object.entries(options).flatMap(([key, value]) => ['-o', `${key}=${value}`]);
    await tool('apt-get', [...own, '-q', 'update']);
    await tool('apt-get', [...own, '-q', 'download', ...PACKAGES], { cwd: folder });
    for (const file of await readdir(folder)) {
      if (file.endsWith('.deb')) await tool('dpkg-deb', ['--extract', join(folder, file), root]);
    }
    await rename(root, target);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return target;
}

/** Debian's statement for the libraries, which are all of GCC. */
export async function copyrightOfLibraries(docs: string): Promise<string> {
  for (const name of [...PACKAGES, 'gcc-12-base', 'gcc-14-base']) {
    const file = join(docs, name, 'copyright');
    if (existsSync(file)) return readFile(file, 'utf8');
  }
  return 'Of GCC: GPL-3+ with the GCC Runtime Library Exception 3.1\n';
}
