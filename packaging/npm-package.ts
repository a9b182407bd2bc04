// The files of a package of the npm registry that `npm ci` did not leave here: those for another architecture, and what
// the package `node` removes of its own parts after its installation.

import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CACHE, ROOT } from './source-tree.ts';
import { tool } from './tool.ts';

/** The folder of the package: an installed one if there is one of that version, else a downloaded one. */
export async function npmPackage(name: string, version: string): Promise<string> {
  for (const installed of [`node_modules/${name}`, `node_modules/node/node_modules/${name}`]) {
    const folder = join(ROOT, installed);
    if (await isVersion(folder, version)) return folder;
  }
  const target = join(CACHE, `${name.replace('/', '+')}-${version}`);
  if (!existsSync(target)) await download(`${name}@${version}`, target);
  return target;
}

async function isVersion(folder: string, version: string): Promise<boolean> {
  const file = join(folder, 'package.json');
  if (!existsSync(file)) return false;
  const { default: manifest } = await import(file, { with: { type: 'json' } });
  return manifest.version === version;
}

/** By one rename, so that an interrupted download leaves nothing that looks complete. */
async function download(specifier: string, target: string): Promise<void> {
  await mkdir(CACHE, { recursive: true });
  const folder = await mkdtemp(join(CACHE, 'download-'));
  try {
    const packed = await tool('npm', [
      'pack',
      specifier,
      '--json',
      '--prefer-offline',
      '--pack-destination',
      folder,
    ]);
    const [{ filename }] = JSON.parse(packed) as [{ filename: string }];
    await tool('tar', ['--extract', '--file', join(folder, filename), '--directory', folder]);
    // Another build may have been faster.
    await rename(join(folder, 'package'), target).catch(error => {
      if (!existsSync(target)) throw error;
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
