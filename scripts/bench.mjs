// `npm run bench` and `npm run soak` on whatever Node the machine has: installs the packages, then continues with the
// Node that they bring (bench/main.ts, bench/soak.ts) and passes all arguments on: `npm run bench -- --help`.

import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { npmCi } from './npm-ci.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

try {
  // stdout is reserved for the results.
  const node = await npmCi(root, line => process.stderr.write(`${line}\n`));
  const [program, ...rest] = process.argv.slice(2);
  const args = [join(root, 'bench', program), ...rest];
  const bench = spawn(node, args, { cwd: root, stdio: 'inherit' });
  // A terminal sends SIGINT to both processes; any other sender means the benchmark.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => bench.kill('SIGTERM'));
  bench.on('close', code => (process.exitCode = code ?? 1));
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
