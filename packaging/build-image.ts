// An OCI image layout (image-spec 1.1) made with tar and gzip alone: no daemon, no base image, no root.

import { createHash } from 'node:crypto';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DEBIAN_ARCH, HOST_ARCH } from './arch.ts';
import { gzip, sha256, sizeOf, tar } from './archive.ts';
import { PROGRAM, STATE, USER_ID } from './build-root.ts';
import { imageConfig, RUNTIME } from './image-config.ts';
import { manifest, VERSION } from './source-tree.ts';

const INDEX = 'application/vnd.oci.image.index.v1+json';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const CONFIG = 'application/vnd.oci.image.config.v1+json';
const LAYER = 'application/vnd.oci.image.layer.v1.tar+gzip';

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

interface Layer {
  readonly blob: Descriptor;
  /** Of the archive before compression. */
  readonly diffId: string;
}

/** Empties and fills the layout with an image of the root file system. */
export async function buildImage(layout: string, root: string, date: number): Promise<void> {
  await rm(layout, { recursive: true, force: true });
  const blobs = join(layout, 'blobs/sha256');
  await mkdir(blobs, { recursive: true });
  const names = (await readdir(join(root, PROGRAM))).map(name => `${PROGRAM}/${name}`).toSorted();
  const program = names.filter(name => name !== RUNTIME);
  const layers = [await systemLayer(blobs, root, date, program), await layerOf(blobs, root, date, program)];
  const created = new Date(date * 1000).toISOString().replace('.000', '');
  const platform = { architecture: DEBIAN_ARCH[HOST_ARCH], os: 'linux' };
  const config = await jsonBlob(blobs, CONFIG, {
    created,
    ...platform,
    config: imageConfig(manifest),
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    history: ['glibc, Node and what they need', 'causeway'].map(comment => ({ created, comment })),
  });
  const image = await jsonBlob(blobs, MANIFEST, {
    schemaVersion: 2,
    mediaType: MANIFEST,
    config,
    layers: layers.map(({ blob }) => blob),
  });
  const named = { ...image, platform, annotations: { 'org.opencontainers.image.ref.name': VERSION } };
  const index = { schemaVersion: 2, mediaType: INDEX, manifests: [named] };
  await writeFile(join(layout, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  await writeFile(join(layout, 'index.json'), JSON.stringify(index));
}

/** Everything but the program. */
async function systemLayer(
  blobs: string,
  root: string,
  date: number,
  program: readonly string[],
): Promise<Layer> {
  const file = join(blobs, 'layer.tar');
  const names = (await readdir(root)).toSorted();
  await tar(root, file, { date, names, exclude: [STATE, ...program] });
  await tar(root, file, { date, names: [STATE], owner: USER_ID, append: true });
  return layerBlob(blobs, file);
}

async function layerOf(blobs: string, root: string, date: number, names: readonly string[]): Promise<Layer> {
  const file = join(blobs, 'layer.tar');
  await tar(root, file, { date, names });
  return layerBlob(blobs, file);
}

async function layerBlob(blobs: string, file: string): Promise<Layer> {
  const diffId = `sha256:${await sha256(file)}`;
  const compressed = await gzip(file);
  const [hash, size] = await Promise.all([sha256(compressed), sizeOf(compressed)]);
  await rename(compressed, join(blobs, hash));
  return { diffId, blob: { mediaType: LAYER, digest: `sha256:${hash}`, size } };
}

async function jsonBlob(blobs: string, mediaType: string, content: unknown): Promise<Descriptor> {
  const text = JSON.stringify(content);
  const hash = createHash('sha256').update(text).digest('hex');
  await writeFile(join(blobs, hash), text);
  return { mediaType, digest: `sha256:${hash}`, size: Buffer.byteLength(text) };
}
