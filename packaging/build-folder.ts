// The folder that all packages but npm's are made of: the program, compiled, with its Node and the libraries that a
// minimal system lacks. bin/causeway works wherever the folder is.
//
//   bin/causeway    lib/      dashboard/static/    runtime/{node,atomic/,cxx/}
//   package.json    docs/     examples/            node_modules/{koffi,@koromix}    systemd/

import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Arch, HOST_ARCH, TRIPLET } from './arch.ts';
import { buildProgram } from './build-program.ts';
import { copyrightOfLibraries, LIBRARIES, librariesFor } from './libraries.ts';
import { npmPackage } from './npm-package.ts';
import { manifest, ROOT } from './source-tree.ts';
import { tool } from './tool.ts';

const AS_THEY_ARE = ['bin', 'dashboard/static', 'docs', 'examples', 'CHANGELOG.md', 'LICENSE', 'README.md'];
/** What koffi needs to run; the rest is its sources and documents. */
const OF_KOFFI = ['package.json', 'index.js', 'src/koffi/index.js', 'src/koffi/src/static.js', 'LICENSE.txt'];

/** Empties and fills the folder. */
export async function buildFolder(folder: string, arch: Arch): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const name of AS_THEY_ARE) await cp(join(ROOT, name), join(folder, name), { recursive: true });
  await cp(join(ROOT, 'packaging/systemd'), join(folder, 'systemd'), { recursive: true });
  const { name, version, description, type, license } = manifest;
  const own = { name, version, description, type, license, private: true };
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(own, null, 2)}\n`);
  await Promise.all([
    buildProgram(join(folder, 'lib')),
    copyKoffi(folder, arch),
    copyRuntime(join(folder, 'runtime'), arch),
  ]);
  // Whatever umask the checkout was made with.
  await tool('chmod', ['--recursive', 'u=rwX,go=rX', folder]);
}

async function copyRuntime(folder: string, arch: Arch): Promise<void> {
  await mkdir(folder, { recursive: true });
  const node = join(folder, 'node');
  const original = await npmPackage(`node-linux-${arch}`, manifest.dependencies.node as string);
  // A fifth of it is names for debuggers.
  await tool(stripFor(arch), ['--strip-all', '-o', node, join(original, 'bin/node')]);
  await cp(join(original, 'LICENSE'), join(folder, 'LICENSE-node.txt'));
  const { libraries, docs } = await librariesFor(arch, node);
  for (const [group, names] of Object.entries(LIBRARIES)) {
    await mkdir(join(folder, group));
    for (const { name, path } of libraries.filter(({ name }) => (names as readonly string[]).includes(name)))
      await cp(path, join(folder, group, name), { dereference: true });
  }
  await writeFile(join(folder, 'LICENSE-libraries.txt'), await copyrightOfLibraries(docs));
}

function stripFor(arch: Arch): string {
  return arch === HOST_ARCH ? 'strip' : `${TRIPLET[arch]}-strip`;
}

async function copyKoffi(folder: string, arch: Arch): Promise<void> {
  const version = manifest.dependencies.koffi as string;
  const koffi = await npmPackage('koffi', version);
  for (const file of OF_KOFFI) await cp(join(koffi, file), join(folder, 'node_modules/koffi', file));
  const name = `@koromix/koffi-linux-${arch}`;
  const native = await npmPackage(name, version);
  // Its other half is for musl.
  const files = ['package.json', 'index.js', `linux_${arch}/koffi.node`];
  for (const file of files) await cp(join(native, file), join(folder, 'node_modules', name, file));
}
