// `npm run build`, `bundle`, `image` and `deb` on whatever Node the machine has: installs the packages, then continues
// with the Node that they bring (packaging/*.ts) and passes all arguments on: `npm run bundle -- --arch arm64`.

import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { npmCi } from './npm-ci.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

try {
  const node = await npmCi(root, line => process.stderr.write(`${line}\n`));
  const [program, ...rest] = process.argv.slice(2);
  const build = spawn(node, [join(root, 'packaging', program), ...rest], { cwd: root, stdio: 'inherit' });
  build.on('close', code => (process.exitCode = code ?? 1));
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
