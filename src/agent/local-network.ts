// The addresses and devices of this machine or network namespace. Reading them needs neither privileges nor a program;
// they are changed with the program `ip`.

import { execFile } from 'node:child_process';
import { networkInterfaces } from 'node:os';
import { formatIp, parseIp } from '../wire/ip-address.ts';

/** Generous: `ip` only talks to the kernel. */
const IP_TIMEOUT_MS = 5000;
/** Users other than root often have no sbin in their PATH. */
const IP_PROGRAMS = ['ip', '/usr/sbin/ip', '/sbin/ip'];

export interface IpResult {
  readonly ok: boolean;
  /** The stderr of `ip` in one line; 'ENOENT' if the program is missing. */
  readonly fault: string;
}

export interface LocalNetwork {
  /** The addresses of all devices that are up, in RFC 5952 format. */
  addresses(): ReadonlySet<string>;
  /** Runs `ip` with these arguments. Never rejects. */
  ip(...args: readonly string[]): Promise<IpResult>;
}

export const localNetwork: LocalNetwork = {
  addresses() {
    const all = Object.values(networkInterfaces()).flatMap(device => device ?? []);
    return new Set(all.map(({ address }) => canonical(address)));
  },
  async ip(...args) {
    for (const program of IP_PROGRAMS) {
      const result = await run(program, args);
      if (result.fault !== 'ENOENT') return result;
    }
    return { ok: false, fault: 'ENOENT' };
  },
};

function canonical(address: string): string {
  const bytes = parseIp(address);
  return bytes === undefined ? address : formatIp(bytes, 0);
}

function run(program: string, args: readonly string[]): Promise<IpResult> {
  return new Promise(resolve => {
    execFile(program, args, { timeout: IP_TIMEOUT_MS, killSignal: 'SIGKILL' }, (error, _stdout, stderr) => {
      if (error === null) return resolve({ ok: true, fault: '' });
      const output = stderr.trim().replaceAll(/\s*\n\s*/g, '; ');
      const code = String(error.code ?? error.signal);
      resolve({ ok: false, fault: error.code === 'ENOENT' ? 'ENOENT' : output || `it ended with ${code}` });
    });
  });
}
