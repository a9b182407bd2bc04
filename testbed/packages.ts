// The Debian packages that the tests need, which of them are missing, and how to install them. `npm test`
// installs them before the first test; a test asks `missingPrograms()` and skips with that reason.

import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

interface DebianPackage {
  readonly name: string;
  /** If all of these programs are found, the package is not needed. Empty: ask dpkg. */
  readonly programs: readonly string[];
}

export const PACKAGES: readonly DebianPackage[] = [
  { name: 'openssl', programs: ['openssl'] },
  { name: 'gnutls-bin', programs: ['gnutls-cli', 'gnutls-serv'] },
  { name: 'curl', programs: ['curl'] },
  { name: 'haproxy', programs: ['haproxy'] },
  { name: 'nginx', programs: ['nginx'] },
  { name: 'chromium', programs: ['chromium'] },
  { name: 'libnginx-mod-stream', programs: [] },
  { name: 'iproute2', programs: ['ip'] },
  // kube-proxy writes its rules with these.
  { name: 'nftables', programs: ['nft'] },
  { name: 'iptables', programs: ['iptables'] },
  // For HAProxy 3.0 (haproxy-build.ts), with the signing keys of Debian's archive.
  { name: 'debootstrap', programs: ['debootstrap'] },
  { name: 'debian-archive-keyring', programs: [] },
  // Our own packages are made and checked with these.
  { name: 'binutils', programs: ['strip'] },
  { name: 'lintian', programs: ['lintian'] },
  { name: 'systemd', programs: ['systemd-analyze', 'systemd-socket-activate'] },
  // A supervisor's socket in a test.
  { name: 'python3', programs: ['python3'] },
  // external-dns writes to named, and dig asks it.
  { name: 'bind9', programs: ['named'] },
  { name: 'bind9-dnsutils', programs: ['dig'] },
  { name: 'dnsmasq-base', programs: ['dnsmasq'] },
  // With promtool, which checks metrics and alert rules.
  { name: 'prometheus', programs: ['prometheus', 'promtool'] },
  { name: 'default-jdk-headless', programs: ['java', 'javac'] },
  { name: 'chromium', programs: ['chromium'] },
];

/** Daemons are in sbin, which is not on everyone's PATH. */
const SBIN = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

/**
 * Debian starts a daemon when it is installed, and systemd starts it at the next boot. Only tests should start them:
 * policy-rc.d (invoke-rc.d(8)) refuses starts while this shell lives, so that even a killed shell
 * leaves no lasting refusal, and the services of newly installed packages are disabled. Packages that were there stay
 * as they are, and an existing policy-rc.d is not replaced.
 */
const INSTALL_SCRIPT = `
set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\\nkill -0 %s 2>/dev/null && exit 101\\nexit 0\\n' "$$" >"$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' INT TERM HUP
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "$@"
if [ -d /run/systemd/system ]; then
  for package in "$@"; do
    systemctl disable --now "$package.service" >/dev/null 2>&1 || true
  done
fi
`;

/** The path of a program, as a shell would find it, sbin included. */
export function findProgram(name: string): string | undefined {
  const directories = [...(process.env.PATH ?? '').split(delimiter), ...SBIN];
  return directories.map(directory => join(directory, name)).find(isExecutable);
}

/** For the `skip` option of a test: false if every program is installed, else the reason. */
export function missingPrograms(...names: readonly string[]): string | false {
  const missing = names.filter(name => findProgram(name) === undefined);
  return missing.length === 0 ? false : `not on this machine: ${missing.join(', ')}`;
}

/** Names of the packages that this machine lacks. */
export function missingPackages(): string[] {
  return PACKAGES.filter(({ name, programs }) =>
    programs.length > 0 ? missingPrograms(...programs) !== false : !isInstalled(name),
  ).map(({ name }) => name);
}

/** Installs packages with apt-get. If this user may not, it throws an error with the command to run. */
export function installPackages(names: readonly string[]): void {
  if (names.length === 0) return;
  const elevation = elevationCommand();
  if (findProgram('apt-get') === undefined || elevation === undefined) {
    const reason = elevation === undefined ? 'this user is not root' : 'this machine has no apt-get';
    throw new Error(
      `Cannot install what the tests need as ${reason}: ${names.join(' ')}\nInstall it yourself, on Debian or Ubuntu by:\n  ${installCommand(names)}`,
    );
  }
  const [command, ...args] = [...elevation, 'sh', '-c', INSTALL_SCRIPT, 'install-packages', ...names];
  const { status, stdout, stderr } = spawnSync(command as string, args, { encoding: 'utf8' });
  if (status !== 0) {
    throw new Error(
      `Cannot install ${names.join(' ')}: apt-get ended with code ${status}\n${stdout}${stderr}`,
    );
  }
}

/** The command that installs packages. */
export function installCommand(names: readonly string[]): string {
  return `sudo apt-get update && sudo apt-get install -y --no-install-recommends ${names.join(' ')}`;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function isInstalled(name: string): boolean {
  try {
    const status = execFileSync('dpkg-query', ['--show', '--showformat=${db:Status-Status}', name], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return status === 'installed';
  } catch {
    return false; // unknown to dpkg, or no dpkg
  }
}

/** Empty for root, `sudo` if it needs no password, undefined otherwise. */
function elevationCommand(): readonly string[] | undefined {
  if (process.getuid?.() === 0) return [];
  return spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0 ? ['sudo', '-n'] : undefined;
}
