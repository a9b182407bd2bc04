// Installs the packages of package-lock.json if they are missing. Plain JavaScript without third-party imports,
// because it runs on the machine's own Node before anything is installed.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Installs the packages of package-lock.json if any is missing, and returns the path of the Node that came
 * with them.
 * @param {string} root of the repository
 * @param {(line: string) => void} say
 * @returns {Promise<string>}
 */
export async function npmCi(root, say) {
  const node = join(root, 'node_modules/node/bin/node');
  if (existsSync(node) && isInstalled(root)) return node;

  say('npm ci: installing what package-lock.json names');
  const started = Date.now();
  await install(root);
  const version = spawnSync(node, ['--version'], { encoding: 'utf8' });
  if (version.status !== 0) {
    throw new Error(
      "Cannot run the Node of the package 'node': npm must be allowed to run its install script",
    );
  }
  say(`npm ci: ${((Date.now() - started) / 1000).toFixed(1)} s, Node ${version.stdout.trim()}`);
  return node;
}

/**
 * In its own process group: npm is slow and noisy when it is interrupted.
 * @param {string} root
 */
async function install(root) {
  // Errors only: tools whose `engines` require a newer Node run on the one that is installed here.
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  const npm = spawn('npm', args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'], detached: true });
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  let isInterrupted = false;
  const interrupt = () => {
    isInterrupted = true;
    if (npm.pid !== undefined) process.kill(-npm.pid, 'SIGKILL');
  };
  for (const signal of signals) process.on(signal, interrupt);
  const code = await new Promise((resolve, reject) => {
    npm.on('error', error => reject(new Error(`Cannot run npm: ${error.message}`)));
    npm.on('close', resolve);
  });
  for (const signal of signals) process.off(signal, interrupt);
  if (isInterrupted)
    throw new Error('Interrupted while packages were installed; the next start installs them');
  if (code !== 0) throw new Error(`Cannot install packages: npm ci ended with code ${code}`);
}

/**
 * npm writes node_modules/.package-lock.json when everything is in place, scripts included; an interrupted install has
 * none. Missing optional packages are for other platforms.
 * @param {string} root
 * @returns {boolean}
 */
export function isInstalled(root) {
  const [wanted, found] = ['package-lock.json', 'node_modules/.package-lock.json'].map(name =>
    packagesIn(join(root, name)),
  );
  if (wanted === undefined || found === undefined) return false;
  return Object.entries(wanted).every(([path, { version, integrity, optional, devOptional }]) => {
    if (path === '') return true;
    const there = found[path];
    if (there === undefined) return optional === true || devOptional === true;
    return there.version === version && there.integrity === integrity;
  });
}

/**
 * @param {string} file
 * @returns {Record<string, { version?: string, integrity?: string, optional?: boolean, devOptional?: boolean }> | undefined}
 */
function packagesIn(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch {
    return undefined;
  }
}
