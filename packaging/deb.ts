// `npm run deb [-- --arch arm64]`: dist/causeway_VERSION_ARCH.deb.

import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { DEBIAN_ARCH, parseArch } from './arch.ts';
import { sizeOf } from './archive.ts';
import { buildDeb } from './build-deb.ts';
import { ROOT, sourceDate, VERSION } from './source-tree.ts';

const DIST = join(ROOT, 'dist');
const { values } = parseArgs({ options: { arch: { type: 'string' } } });

const arch = parseArch(values.arch);
const name = `causeway_${VERSION}_${DEBIAN_ARCH[arch]}.deb`;
await mkdir(DIST, { recursive: true });
const scratch = await mkdtemp(join(DIST, 'deb-'));
try {
  await buildDeb(join(scratch, 'tree'), join(DIST, name), { arch, date: await sourceDate() });
  process.stdout.write(`dist/${name}: ${((await sizeOf(join(DIST, name))) / 1e6).toFixed(1)} MB\n`);
} finally {
  await rm(scratch, { recursive: true, force: true });
}
