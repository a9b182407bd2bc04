// BIND's named in a test, a DNS server whose zones can be updated (RFC 2136) and transferred (AXFR) with a TSIG key:
// `await using dns = await startBind({ zones: { 'a.test': 'www IN A 192.0.2.1' } })`. It neither reads nor touches the
// machine's own.

import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { freePort } from './free-port.ts';
import type { Program } from './program.ts';
import { run } from './run.ts';
import { runNamed } from './run-named.ts';
import { tempDir } from './temp-dir.ts';

export interface BindOptions {
  /** The name of a zone to the lines of its zone file besides SOA and NS. */
  readonly zones: Readonly<Record<string, string>>;
}

export interface TsigKey {
  readonly name: string;
  readonly algorithm: 'hmac-sha256';
  /** Base64. */
  readonly secret: string;
}

export interface DnsRecord {
  readonly name: string;
  readonly ttl: number;
  readonly type: string;
  readonly data: string;
}

export interface DnsAnswer {
  /** Such as NOERROR and NXDOMAIN. */
  readonly status: string;
  readonly records: readonly DnsRecord[];
}

export interface Bind extends Program {
  /** UDP and TCP. */
  readonly port: number;
  readonly zones: readonly string[];
  /** Allows updates and transfers. */
  readonly key: TsigKey;
  /** What dig prints of an answer. */
  dig(name: string, type: string): Promise<DnsAnswer>;
  /** All records of a zone. */
  transfer(zone: string): Promise<readonly DnsRecord[]>;
}

const CONTACT = 'ns hostmaster';
/** Refresh, retry, expire and the time for which a resolver may remember that there is no such name. */
const TIMES = '3600 600 86400 1';

/** Starts named, and resolves when it has loaded its zones. */
export async function startBind({ zones }: BindOptions): Promise<Bind> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const port = await freePort();
  const key: TsigKey = {
    name: 'causeway',
    algorithm: 'hmac-sha256',
    secret: randomBytes(32).toString('base64'),
  };
  const names = Object.keys(zones);
  for (const [name, lines] of Object.entries(zones)) {
    const start = `$TTL 60\n@ IN SOA ${CONTACT} 1 ${TIMES}\n@ IN NS ns\nns IN A 127.0.0.1\n`;
    await writeFile(dir.file(`${name}.zone`), `${start}${lines}\n`);
  }
  await writeFile(dir.file('named.conf'), configuration(dir.path, port, key, names));
  const program = stack.use(await runNamed(dir));

  // It would run, and refuse to answer for such a zone.
  if (/not loaded due to errors/.test(program.log()))
    throw new Error(`named does not accept a zone:\n${program.log()}`);

  async function query(...args: readonly string[]): Promise<DnsAnswer> {
    const server = ['@127.0.0.1', '-p', String(port), '+norecurse'];
    const { code, stdout } = await run('dig', ['-r', ...server, ...args]);
    const text = stdout.toString();
    if (code !== 0) throw new Error(`dig ${args.join(' ')} ended with code ${code}:\n${text}`);
    return { status: /status: (\w+)/.exec(text)?.[1] ?? '', records: recordsOf(text) };
  }
  const owned = stack.move();
  return {
    ...program,
    port,
    zones: names,
    key,
    dig: (name, type) => query('+noall', '+comments', '+answer', name, type),
    async transfer(zone) {
      const credentials = `${key.algorithm}:${key.name}:${key.secret}`;
      const { records } = await query('+noall', '+answer', '-y', credentials, zone, 'AXFR');
      if (records.length === 0) throw new Error(`named does not transfer '${zone}'`);
      // The SOA record comes first and last (RFC 5936 2.2).
      return records.slice(0, -1);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function configuration(dir: string, port: number, key: TsigKey, zones: readonly string[]): string {
  const zone = (name: string) => `zone "${name}" {
  type primary;
  file "${name}.zone";
  allow-update { key ${key.name}; };
  allow-transfer { key ${key.name}; };
};`;
  return `key ${key.name} { algorithm ${key.algorithm}; secret "${key.secret}"; };
options {
  directory "${dir}";
  listen-on port ${port} { 127.0.0.1; };
  listen-on-v6 { none; };
  pid-file none;
  lock-file none;
  session-keyfile none;
  recursion no;
  notify no;
  dnssec-validation no;
};
controls { };
${zones.map(zone).join('\n')}
`;
}

/** `name. 60 IN A 192.0.2.1`, with blanks of any number. */
function recordsOf(text: string): readonly DnsRecord[] {
  return [...text.matchAll(/^([^\s;]+)\.\s+(\d+)\s+IN\s+(\S+)\s+(.+)$/gm)].map(
    ([, name, ttl, type, data]) => ({ name, ttl: Number(ttl), type, data }),
  );
}
