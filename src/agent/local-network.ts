// The addresses and devices of this machine, or of this network namespace, as the agent's local address needs them.
// They are read from the kernel, which takes neither privileges nor a program; changed by the program `ip`.

import { execFile } from 'node:child_process';
import { networkInterfaces } from 'node:os';
import { formatIp, parseIp } from '../wire/ip-address.ts';

/** It only talks to the kernel. */
const IP_TIMEOUT_MS = 5000;
/** Users other than root often have no sbin in their PATH. */
const IP_PROGRAMS = ['ip', '/usr/sbin/ip', '/sbin/ip'];

export interface IpResult {
  readonly ok: boolean;
  /** What it says on stderr, in one line; 'ENOENT' where there is no such program. */
  readonly fault: string;
}

export interface LocalNetwork {
  /** Of every device that is up, in RFC 5952's text. */
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
      const said = stderr.trim().replaceAll(/\s*\n\s*/g, '; ');
      const code = String(error.code ?? error.signal);
      resolve({ ok: false, fault: error.code === 'ENOENT' ? 'ENOENT' : said || `it ended with ${code}` });
    });
  });
}
