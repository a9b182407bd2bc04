// The packages that package-lock.json names, installed when they are not. Plain JavaScript without imports of others,
// as this runs on the machine's own Node before anything is installed.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Holds the hash of what is installed. Gone before an install and written after it, which may be interrupted. */
const STAMP = 'node_modules/.causeway-installed';

/**
 * Installs unless package-lock.json is what was installed last, and gives the path of the Node that came with it.
 * @param {string} root of the repository
 * @param {(line: string) => void} say
 * @returns {string}
 */
export function npmCi(root, say) {
  const node = join(root, 'node_modules/node/bin/node');
  const stamp = join(root, STAMP);
  const wanted = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
  if (existsSync(node) && existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return node;

  say('npm ci: installing what package-lock.json names');
  const started = Date.now();
  rmSync(stamp, { force: true });
  // Errors only: tools whose engines ask for a newer Node run on the one that is installed here.
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  const { status, error } = spawnSync('npm', args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
  if (error) throw new Error(`Cannot run npm: ${error.message}`);
  if (status !== 0) throw new Error(`Cannot install packages: npm ci ended with code ${status}`);
  const version = spawnSync(node, ['--version'], { encoding: 'utf8' });
  if (version.status !== 0) {
    throw new Error(
      "Cannot run the Node of the package 'node': npm must be allowed to run its install script",
    );
  }
  writeFileSync(stamp, wanted);
  say(`npm ci: ${((Date.now() - started) / 1000).toFixed(1)} s, Node ${version.stdout.trim()}`);
  return node;
}
