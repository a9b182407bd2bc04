// The addresses of a frontend: `bind` lines → listeners, with what they say about PROXY headers and TLS.

import { overlap, readListenAddress } from '../../config/address.ts';
import type { ListenAddress } from '../../config/config.ts';
import type { ImportedListener, Place } from '../imported.ts';
import { type AclContext, evaluate, readCondition } from './acl.ts';
import type { Report } from './pool.ts';
import { linesOf, type Section } from './sections.ts';

/** A range of ports becomes a listener each. */
const MAX_PORTS = 64;
export const EVERYONE = ['0.0.0.0/0', '::/0'] as const;

export interface Bind {
  readonly on: string;
  readonly address: ListenAddress;
  readonly acceptsProxy: boolean;
  readonly opensTls: boolean;
  readonly place: Place;
}

export function readBinds(section: Section, report: Report): Bind[] {
  const binds: Bind[] = [];
  for (const { words, place } of linesOf(section, 'bind')) {
    const [, addresses, ...params] = words;
    const flags = new Set(params.map(word => word.text));
    const before = binds.length;
    for (const text of (addresses?.text ?? '').split(',')) {
      for (const on of expandPorts(text, flags)) {
        const address = readListenAddress(on);
        if ('fault' in address) continue;
        binds.push({
          on,
          address: address.value,
          acceptsProxy: flags.has('accept-proxy'),
          opensTls: flags.has('ssl'),
          place,
        });
      }
    }
    if (binds.length === before)
      report(
        place,
        'not carried over',
        `'bind ${addresses?.text ?? ''}': it is not a TCP address with a port`,
      );
    if (binds.length > MAX_PORTS) {
      report(place, 'not carried over', `more than ${MAX_PORTS} ports of one frontend`);
      return binds.slice(0, MAX_PORTS);
    }
  }
  return joinFamilies(binds);
}

/** 0.0.0.0:443 and [::]:443 are :443. */
function joinFamilies(binds: readonly Bind[]): Bind[] {
  const has = (host: string, port: number) =>
    binds.some(({ address }) => address.host === host && address.port === port);
  return binds.flatMap(bind => {
    const { host, port } = bind.address;
    if (host === '::' && has('0.0.0.0', port)) return [];
    if (host !== '0.0.0.0' || !has('::', port)) return [bind];
    return [{ ...bind, on: `:${port}`, address: { host: '', port } }];
  });
}

function expandPorts(text: string, flags: ReadonlySet<string>): string[] {
  const address = text.trim().replace(/^(?:ipv4|ipv6|tcp4?|tcp6)@/, '');
  const match = /^(.*):(\d{1,5})(?:-(\d{1,5}))?$/.exec(address);
  if (match === null || /^(?:unix@|abns@|\/|fd@|udp|quic|rhttp@)/.test(address)) return [];
  const [, given, first, last = first] = match;
  const host = given.replace(/^\[|\]$/g, '');
  const isAny = host === '' || host === '*' || (host === '::' && !flags.has('v6only'));
  const count = Math.min(Number(last) - Number(first) + 1, MAX_PORTS + 1);
  return Array.from({ length: Math.max(count, 0) }, (_, i) => {
    const port = Number(first) + i;
    if (isAny) return `:${port}`;
    return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  });
}

/** Of `tcp-request connection expect-proxy layer4 if { src … }`: who must send a PROXY header. */
export function expectsProxyFrom(section: Section, context: AclContext, report: Report): readonly string[] {
  const from: string[] = [];
  for (const { words, place } of linesOf(section, 'tcp-request', 'connection')) {
    if (words[2]?.text !== 'expect-proxy') continue;
    const verdict = evaluate(readCondition(words, context), {
      protocol: 'tls',
      host: undefined,
      id: undefined,
      port: 0,
    });
    if (verdict === 'yes') from.push(...EVERYONE);
    else if (typeof verdict === 'object') from.push(...verdict.in);
    else report(place, 'not carried over', 'expect-proxy: its condition is not a list of addresses');
  }
  return from;
}

/** The listener that competes with this bind, of those that are there already. */
export function rivalOf(bind: Bind, listeners: readonly ImportedListener[]): ImportedListener | undefined {
  return listeners.find(listener => {
    const address = readListenAddress(listener.on);
    return 'value' in address && overlap(address.value, bind.address);
  });
}
