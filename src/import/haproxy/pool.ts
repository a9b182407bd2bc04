// A backend or listen section → a pool: servers, balance, health checks, PROXY headers.

import type { Balance } from '../../cluster/cluster.ts';
import { readBackend } from '../../config/address.ts';
import { readHost } from '../../config/host.ts';
import type { ImportedHealth, ImportedPool, ImportFinding, Place } from '../imported.ts';
import { hasOption, lineOf, linesOf, modeOf, type Section } from './sections.ts';
import { toMs } from './to-ms.ts';
import type { Line } from './tokenize.ts';

const BALANCES: Readonly<Record<string, Balance>> = {
  source: 'source',
  roundrobin: 'round-robin',
  'static-rr': 'round-robin',
  leastconn: 'least-connections',
  random: 'random',
};
/** Of a server, those that have one value. */
const WITH_VALUE = new Set(
  `addr agent-addr agent-check agent-inter agent-port agent-send alpn ca-file check-alpn check-proto check-sni
  ciphers ciphersuites cookie crl-file crt curves disabled-on downinter error-limit fall fastinter guid hash-key id
  idle-ping init-addr init-state inter log-bufsize log-proto maxconn maxqueue max-reuse minconn namespace npn
  observe on-error on-marked-down on-marked-up pool-conn-name pool-low-conn pool-max-conn pool-purge-delay port proto
  proxy-v2-options redir resolve-net resolve-opts resolve-prefer resolvers rise sigalgs slowstart sni socks4 source
  ssl-max-ver ssl-min-ver strict-maxconn tcp-ut track usesrc verify verifyhost weight ws`.split(/\s+/),
);
/** Of a server: no difference here, or done in another way. */
const NO_MATTER = new Set(
  `check inter rise fall check-ssl check-sni send-proxy send-proxy-v2 send-proxy-v2-ssl send-proxy-v2-ssl-cn
  check-send-proxy id guid init-addr init-state resolvers resolve-prefer enabled verify ca-file check-alpn
  no-check no-send-proxy no-send-proxy-v2 observe on-error on-marked-up error-limit port addr tfo no-tfo
  log-bufsize pool-purge-delay pool-max-conn pool-low-conn disabled backup ssl no-ssl weight`.split(/\s+/),
);

export type Report = (place: Place, kind: ImportFinding['kind'], text: string) => void;

interface Server {
  readonly place: Place;
  readonly address: string;
  readonly options: ReadonlyMap<string, string>;
}

/** Undefined if it has no servers that can be carried over. `port` is the listener's, for servers without one. */
export function readPool(section: Section, port: number, report: Report): ImportedPool | undefined {
  const servers = serversOf(section, report);
  const active = new Set(
    servers.filter(({ options }) => !options.has('backup')).map(({ address }) => address),
  );
  const usable = servers.filter(
    // A second line for the same server says nothing new.
    server =>
      !(server.options.has('backup') && active.has(server.address)) && isUsable(server, section, report),
  );
  const backends = new Set<string>();
  for (const server of usable) {
    const address = backendAddress(server.address, port);
    const read = address === undefined ? undefined : readBackend(address);
    if (read === undefined || 'fault' in read)
      report(
        server.place,
        'not carried over',
        `server '${server.address}': it is not a TCP address with a port`,
      );
    else backends.add(read.value.text);
  }
  if (backends.size === 0) return undefined;
  const balance = balanceOf(section, report);
  const proxyProtocol = proxyProtocolOf(usable);
  return {
    name: section.name,
    backends: [...backends],
    ...(balance !== undefined && { balance }),
    balancePlace: lineOf(section, 'balance')?.place ?? section.place,
    ...healthOf(section, usable),
    ...(proxyProtocol !== undefined && { proxyProtocol }),
    place: section.place,
  };
}

/** Whether the section lists servers at all. */
export function hasServers(section: Section): boolean {
  return section.lines.some(({ words }) => /^server(-template)?$/.test(words[0].text));
}

function serversOf(section: Section, report: Report): Server[] {
  const defaults = new Map<string, string>();
  for (const line of [...section.inherited, ...section.lines])
    if (line.words[0].text === 'default-server') readOptions(line, 1, defaults);
  return section.lines.flatMap(line => {
    const [keyword, , second, third] = line.words.map(word => word.text);
    const isTemplate = keyword === 'server-template';
    if (keyword !== 'server' && !isTemplate) return [];
    const address = isTemplate ? third : second;
    if (address === undefined) {
      report(line.place, 'not carried over', `this ${keyword} has no address`);
      return [];
    }
    if (isTemplate)
      report(
        line.place,
        'warning',
        `server-template of ${second} becomes one backend: a name stands for all its addresses, and is resolved again and again`,
      );
    const options = new Map(defaults);
    readOptions(line, isTemplate ? 4 : 3, options);
    reportOptions(line, options, report);
    return [{ place: line.place, address, options }];
  });
}

function readOptions({ words }: Line, from: number, into: Map<string, string>): void {
  for (let i = from; i < words.length; i++) {
    const { text } = words[i];
    const name = text.replace(/\(.*$/, '');
    const takesValue = WITH_VALUE.has(name) || name === 'set-proxy-v2-tlv-fmt';
    if (name.startsWith('no-')) into.delete(name.slice(3));
    into.set(name, takesValue ? (words[i + 1]?.text ?? '') : '');
    if (takesValue) i++;
  }
}

function reportOptions({ place }: Line, options: ReadonlyMap<string, string>, report: Report): void {
  for (const [name, value] of options) {
    if (name === 'set-proxy-v2-tlv-fmt')
      report(
        place,
        'not carried over',
        `${name}: putting an id into the PROXY header is the work of causeway agent`,
      );
    else if (name === 'on-marked-down')
      report(place, 'not carried over', `${name}: connections of a backend that goes down are left alone`);
    else if (!NO_MATTER.has(name))
      report(place, 'not carried over', `option '${name}${value === '' ? '' : ` ${value}`}' of servers`);
  }
}

function isUsable({ place, address, options }: Server, section: Section, report: Report): boolean {
  if (options.has('disabled')) report(place, 'not carried over', `server '${address}' is disabled`);
  else if (options.get('weight') === '0')
    report(place, 'not carried over', `server '${address}' has weight 0`);
  else if (options.has('backup'))
    report(
      place,
      'not carried over',
      `server '${address}' is a backup: add it to backends if it may serve at any time`,
    );
  else if (options.has('ssl') && modeOf(section) === 'http')
    report(
      place,
      'not carried over',
      `server '${address}' gets TLS: the gateway does not open or start TLS to backends`,
    );
  else if (options.has('ssl'))
    report(place, 'not carried over', `server '${address}' gets TLS around the client's TLS`);
  else {
    if (options.has('weight') && options.get('weight') !== '1')
      report(place, 'not carried over', `weight ${options.get('weight')}: backends of a route share equally`);
    return true;
  }
  return false;
}

/** With a port; undefined if it is not TCP. */
function backendAddress(given: string, listenerPort: number): string | undefined {
  const address = given.replace(/^(?:ipv4|ipv6|tcp4?|tcp6)@/, '');
  if (/^(?:unix@|abns@|\/|fd@|sockpair@|udp|quic|rhttp@)/.test(address) || address.startsWith('_'))
    return undefined;
  const bracketed = /^\[([^\]]+)\](?::(.*))?$/.exec(address);
  const colon = address.lastIndexOf(':');
  const isBareV6 = bracketed === null && address.indexOf(':') !== colon && address.includes('::');
  const host = bracketed?.[1] ?? (colon < 0 ? address : address.slice(0, colon));
  const port = bracketed === null ? (colon < 0 ? '' : address.slice(colon + 1)) : (bracketed[2] ?? '');
  const number = port === '' ? listenerPort : /^[+-]/.test(port) ? listenerPort + Number(port) : Number(port);
  if (!Number.isInteger(number) || number < 1 || number > 65_535 || host === '') return undefined;
  return host.includes(':') || isBareV6 ? `[${host}]:${number}` : `${host}:${number}`;
}

function balanceOf(section: Section, report: Report): Balance | undefined {
  const line = lineOf(section, 'balance');
  // HAProxy's default.
  if (line === undefined) return 'round-robin';
  const algorithm = line.words[1]?.text.toLowerCase() ?? '';
  const known = BALANCES[algorithm.replace(/\(.*$/, '')];
  if (known !== undefined) return known;
  const expression = line.words
    .slice(1)
    .map(word => word.text.toLowerCase())
    .join(' ');
  if (
    expression.startsWith('hdr(host)') ||
    /^hash (?:req[._]ssl_sni|req\.hdr\(host\)|hdr\(host\))/.test(expression)
  )
    return 'host';
  report(line.place, 'not carried over', `balance ${expression}: the default of the route's kind is used`);
  return undefined;
}

function proxyProtocolOf(servers: readonly Server[]): 'v1' | 'v2' | undefined {
  const sent = servers.map(({ options }) => {
    if ([...options.keys()].some(name => name.startsWith('send-proxy-v2'))) return 'v2';
    return options.has('send-proxy') ? 'v1' : undefined;
  });
  return sent.find(version => version !== undefined);
}

function healthOf(section: Section, servers: readonly Server[]): { health?: ImportedHealth } {
  const checked = servers.find(({ options }) => options.has('check') && !options.has('no-check'));
  // Without checks there, the defaults are used here: import-haproxy.ts says so.
  if (checked === undefined) return {};
  const { options } = checked;
  const inter = toMs(options.get('inter'));
  const timeout = toMs(lineOf(section, 'timeout', 'check')?.words[2]?.text);
  const [rise, fall] = [Number(options.get('rise')), Number(options.get('fall'))];
  const serverName = options.get('check-sni');
  const http = hasOption(section, 'httpchk');
  const overTls = options.has('check-ssl');
  const path = http === undefined ? undefined : httpPath(section, http);
  const isTls = hasOption(section, 'ssl-hello-chk') !== undefined || overTls;
  const check = http !== undefined ? (overTls ? 'https' : 'http') : isTls ? 'tls' : 'tcp';
  const isLegalPath = path !== undefined && /^\/[\x21-\x7e]*$/.test(path);
  return {
    health: {
      check,
      // HAProxy's default is 2 s.
      everyMs: inter ?? 2000,
      ...(timeout !== undefined && { timeoutMs: timeout }),
      ...(Number.isInteger(rise) && rise >= 1 && rise <= 1000 && { rise }),
      ...(Number.isInteger(fall) && fall >= 1 && fall <= 1000 && { fall }),
      ...(isLegalPath && path !== '/' && { path }),
      ...(serverName !== undefined && isTls && 'value' in readHost(serverName) && { serverName }),
    },
  };
}

/** `option httpchk [METHOD] URI [VERSION]`, or `http-check send … uri URI`. */
function httpPath(section: Section, option: Line): string | undefined {
  for (const { words } of linesOf(section, 'http-check', 'send')) {
    const uri = words.findIndex(word => word.text === 'uri');
    if (uri > 0) return words[uri + 1]?.text;
  }
  const [first, second] = option.words.slice(2).map(word => word.text);
  return first?.startsWith('/') ? first : second;
}
