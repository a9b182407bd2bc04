// The folder of the program as an archive that unpacks anywhere.

import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Arch } from './arch.ts';
import { gzip, sha256, sizeOf, tar } from './archive.ts';
import { buildFolder } from './build-folder.ts';
import { VERSION } from './source-tree.ts';

export interface Bundle {
  readonly name: string;
  /** In bytes. */
  readonly packed: number;
  readonly unpacked: number;
}

/** Adds the archive to the folder `dist` and brings SHA256SUMS in there up to date. */
export async function buildBundle(dist: string, arch: Arch, date: number): Promise<Bundle> {
  await mkdir(dist, { recursive: true });
  const name = `causeway-${VERSION}-linux-${arch}.tar.gz`;
  const scratch = await mkdtemp(join(dist, 'bundle-'));
  try {
    const plain = join(scratch, 'bundle.tar');
    await buildBundleTar(plain, arch, date);
    const unpacked = await sizeOf(plain);
    await rename(await gzip(plain), join(dist, name));
    await writeFile(join(dist, 'SHA256SUMS'), await sums(dist));
    return { name, packed: await sizeOf(join(dist, name)), unpacked };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Before compression. */
export async function buildBundleTar(file: string, arch: Arch, date: number): Promise<void> {
  const scratch = await mkdtemp(`${file}-`);
  try {
    const name = `causeway-${VERSION}`;
    await buildFolder(join(scratch, name), arch);
    await tar(scratch, file, { date, names: [name] });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Of all archives that are there: those of other architectures were made by other runs. */
async function sums(dist: string): Promise<string> {
  const archives = (await readdir(dist)).filter(file => file.endsWith('.tar.gz')).toSorted();
  const lines = await Promise.all(archives.map(async file => `${await sha256(join(dist, file))}  ${file}\n`));
  return lines.join('');
}
