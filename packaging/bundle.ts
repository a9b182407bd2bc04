// `npm run bundle [-- --arch arm64]`: dist/causeway-VERSION-linux-ARCH.tar.gz and dist/SHA256SUMS.

import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parseArch } from './arch.ts';
import { buildBundle } from './build-bundle.ts';
import { ROOT, sourceDate } from './source-tree.ts';

const { values } = parseArgs({ options: { arch: { type: 'string' } } });
const built = await buildBundle(join(ROOT, 'dist'), parseArch(values.arch), await sourceDate());
process.stdout.write(
  `dist/${built.name}: ${megabytes(built.packed)}, unpacked ${megabytes(built.unpacked)}\n`,
);

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
