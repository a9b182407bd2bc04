// `npm test` and `npm run test:quick` on whatever Node the machine has: installs the packages, then continues with the
// Node that they bring (run-checks.ts). Further arguments choose test files: `npm test -- src/wire`.

import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { npmCi } from './npm-ci.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

try {
  const node = await npmCi(root, line => process.stdout.write(`${line}\n`));
  const args = [join(root, 'scripts/run-checks.ts'), ...process.argv.slice(2)];
  const checks = spawn(node, args, { cwd: root, stdio: 'inherit' });
  // A terminal sends SIGINT to both processes; any other sender means the checks.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => checks.kill('SIGTERM'));
  checks.on('close', code => (process.exitCode = code ?? 1));
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
