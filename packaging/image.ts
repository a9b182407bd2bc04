// `npm run image`: an OCI image layout in dist/image/. `-- --root DIR` stops at the root file system, which the
// Containerfile copies.

import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { buildImage } from './build-image.ts';
import { buildRoot } from './build-root.ts';
import { ROOT, sourceDate } from './source-tree.ts';

const DIST = join(ROOT, 'dist');
const { values } = parseArgs({ options: { root: { type: 'string' } } });

if (values.root !== undefined) await buildRoot(resolve(values.root));
else {
  await mkdir(DIST, { recursive: true });
  const scratch = await mkdtemp(join(DIST, 'image-'));
  try {
    const root = join(scratch, 'root');
    await buildRoot(root);
    await buildImage(join(DIST, 'image'), root, await sourceDate());
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  process.stdout.write('dist/image: an OCI image layout\n');
}
