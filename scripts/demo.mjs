// `npm run demo` on whatever Node the machine has: installs the packages, then continues with the Node that they bring
// (`causeway demo`) and passes all arguments on: `npm run demo -- --once`. package.json starts this by `exec`:
// a shell in between would swallow npm's signals.

import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { npmCi } from './npm-ci.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** The user's directory, to which the printed paths are relative; npm changes to the root. */
const cwd = process.env.INIT_CWD ?? process.cwd();

try {
  await npmCi(root, line => process.stderr.write(`${line}\n`));
  const args = ['demo', ...process.argv.slice(2)];
  const demo = spawn(join(root, 'bin/causeway'), args, { cwd, stdio: 'inherit' });
  // A terminal sends its signals to both processes, others only to this one; the demo counts two at once as one.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => demo.kill(signal));
  demo.on('error', error => {
    process.stderr.write(`Cannot start the demo: ${error.message}\n`);
    process.exitCode = 1;
  });
  demo.on('close', (code, signal) => {
    // Too early for the demo to handle: it has started nothing and written nothing.
    if (signal !== null) process.stderr.write('\nThe demo was interrupted before it began\n');
    process.exitCode = code ?? 1;
  });
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
