// `npm run demo` on whatever Node the machine has: installs the packages, then goes on with the Node that they bring
// (`causeway demo`). All further arguments are its own: `npm run demo -- --once`. package.json starts this by `exec`:
// the shell in between would keep npm's signals to itself.

import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { npmCi } from './npm-ci.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** Where the person is, whose paths the demo prints; npm itself goes to the root. */
const cwd = process.env.INIT_CWD ?? process.cwd();

try {
  await npmCi(root, line => process.stderr.write(`${line}\n`));
  const args = ['demo', ...process.argv.slice(2)];
  const demo = spawn(join(root, 'bin/causeway'), args, { cwd, stdio: 'inherit' });
  // A terminal sends its signals to both, anyone else only to this one; the demo takes two at once for one.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => demo.kill(signal));
  demo.on('error', error => {
    process.stderr.write(`Cannot start the demo: ${error.message}\n`);
    process.exitCode = 1;
  });
  demo.on('close', (code, signal) => {
    // Too early for the demo to notice: it has started nothing and written nothing.
    if (signal !== null) process.stderr.write('\nThe demo was interrupted before it began\n');
    process.exitCode = code ?? 1;
  });
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
