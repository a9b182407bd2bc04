// `causeway dns check`: asks a DNS server for every host of a file, and says which do not lead to the gateway.

import { readFile } from 'node:fs/promises';
import { formatMistake } from '../config/mistake.ts';
import { readConfigFile } from '../config/read-config-file.ts';
import { checkHosts, type HostFinding, type HostVerdict, isWrong, type Lookup } from '../dns/check-hosts.ts';
import { typeOf } from '../dns/dns-answer.ts';
import { type DnsServer, lookupAt } from '../dns/dns-client.ts';
import { mendRecords } from '../dns/mend-records.ts';
import { printable } from '../text/printable.ts';
import { formatIp, parseIp } from '../wire/ip-address.ts';
import { configFile, parse } from './command.ts';
import { countText } from './count-text.ts';
import { dnsAddresses, dnsFormat, dnsServer, hostsOfConfig, ownDnsServers } from './dns-flags.ts';
import { painter, printError, writeJson } from './terminal.ts';

const WRONG = 1;
const BAD_CONFIG = 2;
const NOT_CHECKED = 2;
const DEFAULT_FORMAT = 'bind';
/** Rarely enough for a terminal to keep up. */
const PROGRESS_EVERY = 50;

const words: Readonly<Record<HostVerdict, readonly [word: string, colour: string]>> = {
  right: ['right', '32'],
  missing: ['missing', '31'],
  elsewhere: ['elsewhere', '31'],
  swallowed: ['swallowed', '31'],
  'ttl-too-long': ['ttl', '33'],
  unchecked: ['unchecked', '33'],
};

export async function dnsCheck(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse(
    'dns',
    args,
    {
      config: { type: 'string', short: 'c' },
      address: { type: 'string', multiple: true },
      server: { type: 'string' },
      format: { type: 'string' },
      json: { type: 'boolean' },
    },
    true,
  );
  const addresses = dnsAddresses(values.address);
  const server = values.server === undefined ? undefined : dnsServer(values.server);
  const format = dnsFormat(values.format ?? DEFAULT_FORMAT);
  const file = configFile('dns check', values.config, positionals);
  const read = await readConfigFile(file);
  if (!read.ok) {
    printError(...read.mistakes.map(mistake => formatMistake(file, mistake)));
    return BAD_CONFIG;
  }
  const hosts = hostsOfConfig(read.config);
  if (read.config.sources.length > 0)
    printError(`${file}: hosts of clusters that its sources bring are not checked`);
  if (hosts.length === 0) {
    printError(`${file}: no cluster has a host, so there is nothing to check`);
    return NOT_CHECKED;
  }
  const progress = progressLine();
  const findings = await checkHosts(hosts, addresses, await lookupOf(server), { onProgress: progress.show });
  progress.clear();
  const [listener] = read.config.listen;
  const request = { hosts, addresses, port: listener.port || 443, serial: Math.floor(Date.now() / 1000) };
  const mend = mendRecords(format, findings, request);
  const code = exitCode(findings);
  if (values.json === true) writeJson({ ok: code === 0, findings, mend: mend ?? null });
  else process.stdout.write(textOf(findings, mend, format));
  return code;
}

function exitCode(findings: readonly HostFinding[]): number {
  if (findings.some(isWrong)) return WRONG;
  return findings.some(({ verdict }) => verdict === 'unchecked') ? NOT_CHECKED : 0;
}

/** The machine's own servers, and its hosts file, which programs read first. */
async function lookupOf(server: DnsServer | undefined): Promise<Lookup> {
  if (server !== undefined) return lookupAt([server]);
  const dns = lookupAt(ownDnsServers());
  const hosts = hostsFile(await readFile('/etc/hosts', 'utf8').catch(() => ''));
  return (name, type) => {
    const addresses = (hosts.get(name) ?? []).filter(address => typeOf(address) === type);
    if (addresses.length === 0) return dns(name, type);
    return Promise.resolve({ status: 'answered', addresses, chain: [] });
  };
}

function hostsFile(text: string): ReadonlyMap<string, readonly string[]> {
  const hosts = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address, ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    const ip = parseIp(address);
    if (ip === undefined) continue;
    for (const name of names) {
      const known = hosts.get(name.toLowerCase()) ?? [];
      hosts.set(name.toLowerCase(), [...known, formatIp(ip)]);
    }
  }
  return hosts;
}

function progressLine(): { readonly show: (done: number, all: number) => void; readonly clear: () => void } {
  const isShown = process.stderr.isTTY === true;
  return {
    show(done, all) {
      if (isShown && (done % PROGRESS_EVERY === 0 || done === all))
        process.stderr.write(`\r${done} of ${countText(all, 'answer')}`);
    },
    clear() {
      if (isShown) process.stderr.write('\r\x1b[K');
    },
  };
}

function textOf(findings: readonly HostFinding[], mend: string | undefined, format: string): string {
  const paint = painter(process.stdout);
  const shown = findings.filter(({ verdict, wanted }) => wanted.length > 0 || verdict !== 'right');
  const width = Math.max(...shown.map(({ host }) => host.length));
  const rows = shown.map(({ host, type, verdict, text }) => {
    const [word, colour] = words[verdict];
    return `${paint(colour, word.padEnd(9))}  ${host.padEnd(width)}  ${type.padEnd(4)}  ${printable(text)}`;
  });
  const count = (verdicts: readonly HostVerdict[]) =>
    findings.filter(({ verdict }) => verdicts.includes(verdict)).length;
  const wrong = findings.filter(isWrong).length;
  const unchecked = count(['unchecked']);
  const summary =
    wrong + unchecked === 0
      ? `ok: ${countText(new Set(findings.map(({ host }) => host)).size, 'host')} lead to the gateway`
      : [
          ...(wrong > 0 ? [`${countText(wrong, 'answer')} wrong`] : []),
          ...(unchecked > 0 ? [`${countText(unchecked, 'answer')} could not be checked`] : []),
        ].join(', ');
  const how = mend === undefined ? '' : `\nTo mend it (--format ${format}):\n\n${mend}`;
  return `${rows.join('\n')}\n\n${summary}\n${how}`;
}
