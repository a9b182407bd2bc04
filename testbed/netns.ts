// Network namespaces as hosts: `await using node = await netns({ lo: ['172.20.0.1'] })`. Each has its own devices,
// routes, firewall rules and loopback; the `netns` option of every starter runs a program in it.
//
//   this machine            the hosts of this process
//   bridge cwb17p4711 ────┬──── eth0 198.18.17.2  node a   (lo: 127.0.0.1, 172.20.0.1)
//   198.18.17.1           └──── eth0 198.18.17.3  node b
//
// Hosts have single addresses (/32, /128) and treat every address as on-link, so they find each other and this
// machine by ARP on the bridge, whatever addresses a test gives them, and nothing depends on whether the machine
// forwards. Nothing leads out of the machine.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { processNumber, whileUnused } from './free-port.ts';
import { guard, release } from './guardian.ts';
import { missingPrograms } from './packages.ts';
import { type Program, type ProgramOptions, startProgram } from './program.ts';
import { type RunOptions, type RunResult, run } from './run.ts';

/** Names of namespaces. The bridge's name has the process's number and id: `cwb17p4711`. */
const NAMESPACE = /^causeway-(\d+)-(\d+)-/;
const BRIDGE = /^cwb(\d+)p(\d+)$/;
/** Locally administered. Each bridge is a separate network, so all may have the same. */
const BRIDGE_MAC = '02:ca:5e:00:00:01';
const FIRST_HOST = 2;
const LAST_HOST = 254;

export interface NetnsOptions {
  /** Shown in `ip netns`, made unique. */
  readonly name?: string;
  /** Default: a free one. Test files that run at the same time must choose different addresses. */
  readonly address?: string;
  /** Further addresses, of either family, on its loopback device. */
  readonly lo?: readonly string[];
  /** The name server in its /etc/resolv.conf. Default: the machine's, which cannot be reached from there. */
  readonly resolver?: string;
  /** Names in its /etc/hosts that resolve to this machine. */
  readonly names?: readonly string[];
}

export interface Netns extends AsyncDisposable {
  readonly name: string;
  /** Where this machine and other hosts reach it. */
  readonly address: string;
  /** Undefined if the kernel has no IPv6. */
  readonly address6: string | undefined;
  /** This machine's address as seen from the host. */
  readonly machine: string;
  /** Runs a program in it to completion. */
  run(command: string, args: readonly string[], options?: RunOptions): Promise<RunResult>;
  /** Starts a program in it. */
  start(options: ProgramOptions): Promise<Program>;
}

/** For the `skip` option of a test: false if this user can create network namespaces, else the reason. */
export function missingNetns(): string | false {
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  const missing = missingPrograms('ip', 'unshare');
  if (missing !== false) return missing;
  const { status, stderr } = spawnSync('unshare', ['--net', 'true'], { encoding: 'utf8' });
  return status === 0 ? false : `this machine allows no network namespaces: ${stderr.trim()}`;
}

/** Creates a host. Its processes are killed and it is removed at the end, also when this process is killed. */
export async function netns(options: NetnsOptions = {}): Promise<Netns> {
  const { lo = [], resolver, names = [] } = options;
  const bridge = await bridgeOfThisProcess();
  const host = bridge.nextHost();
  const name = `causeway-${bridge.number}-${process.pid}-${host}${options.name === undefined ? '' : `-${options.name}`}`;
  const address = options.address ?? `${bridge.prefix}${host}`;
  const address6 = bridge.six ? `${bridge.prefix6}${host.toString(16)}` : undefined;
  const addresses = [address, address6].filter(own => own !== undefined);
  // At most 15 characters.
  const device = `cwv${process.pid.toString(36)}-${host}`;

  guard(`netns:${name}`);
  const remove = async () => {
    await emptied(name);
    // This removes its peer in the namespace at once, not when the kernel gets around to it.
    await tryIp('link', 'delete', device);
    await tryIp('netns', 'delete', name);
    for (const own of addresses)
      await tryIp(family(own), 'route', 'delete', single(own), 'dev', bridge.device);
    await rm(`/etc/netns/${name}`, { recursive: true, force: true });
    release(`netns:${name}`);
  };
  try {
    await ip('netns', 'add', name);
    await ip('link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
    await ip('link', 'set', device, 'master', bridge.device, 'up');
    await ip('-n', name, 'link', 'set', 'lo', 'up');
    await ip('-n', name, 'link', 'set', 'eth0', 'up');
    for (const own of addresses) {
      await ip('-n', name, 'address', 'add', single(own), 'dev', 'eth0', ...(isIPv6(own) ? ['nodad'] : []));
      await ip('-n', name, family(own), 'route', 'add', 'default', 'dev', 'eth0', 'src', own);
      await ip(family(own), 'route', 'add', single(own), 'dev', bridge.device);
    }
    for (const own of lo) await ip('-n', name, 'address', 'add', single(own), 'dev', 'lo');
    // ip-netns(8): `ip netns exec` bind-mounts these files over /etc.
    const etc = async (file: string, text: string) => {
      await mkdir(`/etc/netns/${name}`, { recursive: true });
      await writeFile(`/etc/netns/${name}/${file}`, text);
    };
    if (resolver !== undefined) await etc('resolv.conf', `nameserver ${resolver}\n`);
    if (names.length > 0)
      await etc('hosts', `127.0.0.1 localhost\n::1 localhost\n${bridge.address} ${names.join(' ')}\n`);
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    name,
    address,
    address6,
    machine: bridge.address,
    run: (command, args, options) => run(command, args, { ...options, netns: { name } }),
    start: options => startProgram({ ...options, netns: { name } }),
    [Symbol.asyncDispose]: remove,
  };
}

interface Bridge {
  readonly number: number;
  readonly device: string;
  readonly address: string;
  readonly prefix: string;
  readonly prefix6: string;
  readonly six: boolean;
  nextHost(): number;
}

let bridge: Promise<Bridge> | undefined;

/** The guardian removes it when this process ends. */
function bridgeOfThisProcess(): Promise<Bridge> {
  bridge ??= makeBridge();
  return bridge;
}

async function makeBridge(): Promise<Bridge> {
  const number = await processNumber();
  await removeLeftovers(number);
  const device = `cwb${number}p${process.pid}`;
  // RFC 2544: 198.18.0.0/15 is for benchmarks of devices, so no real network should use it. RFC 4193 for IPv6.
  const prefix = `198.${18 + (number >> 8)}.${number & 255}.`;
  const address = `${prefix}1`;
  const prefix6 = `fdca:5e0a:${number.toString(16)}::`;
  const six = existsSync('/proc/sys/net/ipv6');
  guard(`device:${device}`);
  // A bridge without a fixed MAC address takes the lowest of its ports'. It could change with each new host, and
  // the existing hosts would use the old one for half a minute.
  await ip('link', 'add', device, 'address', BRIDGE_MAC, 'type', 'bridge');
  await ip('address', 'add', single(address), 'dev', device);
  if (six) await ip('address', 'add', single(`${prefix6}1`), 'dev', device, 'nodad');
  await ip('link', 'set', device, 'up');
  let host = FIRST_HOST;
  return {
    number,
    device,
    address,
    prefix,
    prefix6,
    six,
    nextHost() {
      if (host > LAST_HOST)
        throw new Error(`Cannot make a network namespace as one process makes ${LAST_HOST - 1} at most`);
      return host++;
    },
  };
}

/** Removes what is left of runs whose guardian was killed too: their numbers are free, or ours now. */
async function removeLeftovers(ownNumber: number): Promise<void> {
  const namespaces = await readdir('/run/netns').catch(() => []);
  const devices = await readdir('/sys/class/net');
  const removeAll = async (number: number) => {
    const isLeft = (match: RegExpExecArray | null) =>
      match !== null && Number(match[1]) === number && Number(match[2]) !== process.pid;
    for (const name of namespaces.filter(name => isLeft(NAMESPACE.exec(name)))) {
      await emptied(name);
      await tryIp('netns', 'delete', name);
      await rm(`/etc/netns/${name}`, { recursive: true, force: true });
    }
    for (const name of devices.filter(name => isLeft(BRIDGE.exec(name)))) await tryIp('link', 'delete', name);
  };
  const numbers = new Set(
    [...namespaces.map(name => NAMESPACE.exec(name)), ...devices.map(name => BRIDGE.exec(name))]
      .filter(match => match !== null)
      .map(match => Number(match[1])),
  );
  for (const number of numbers) {
    if (number === ownNumber) await removeAll(number);
    else await whileUnused(number, () => removeAll(number));
  }
}

/** Kills the processes in a namespace, which would keep it alive. */
async function emptied(name: string): Promise<void> {
  const { stdout } = await run('ip', ['netns', 'pids', name]);
  for (const pid of stdout.toString().split('\n').filter(Boolean)) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // gone meanwhile
    }
  }
}

function single(address: string): string {
  return `${address}/${isIPv6(address) ? 128 : 32}`;
}

function family(address: string): '-4' | '-6' {
  return isIPv6(address) ? '-6' : '-4';
}

async function ip(...args: readonly string[]): Promise<void> {
  const { code, stderr } = await run('ip', args);
  if (code !== 0) throw new Error(`ip ${args.join(' ')} ended with code ${code}: ${stderr.trim()}`);
}

async function tryIp(...args: readonly string[]): Promise<void> {
  await ip(...args).catch(() => {});
}
