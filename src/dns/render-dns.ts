// `causeway render dns`: the formats, and what they are made from.

import type { DnsAnswers } from './dns-answer.ts';
import { renderCloudflare, renderCloudflared } from './render-cloudflare.ts';
import { renderCoredns, renderDnsmasq, renderHosts } from './render-resolvers.ts';
import { renderBind, renderInfoblox, renderWindows } from './render-zones.ts';
import { zonesOf } from './zones.ts';

const formats: Readonly<Record<string, (answers: DnsAnswers) => string>> = {
  bind: renderBind,
  windows: renderWindows,
  infoblox: renderInfoblox,
  dnsmasq: renderDnsmasq,
  coredns: renderCoredns,
  cloudflare: renderCloudflare,
  cloudflared: renderCloudflared,
  hosts: renderHosts,
};

export const dnsFormats: readonly string[] = Object.keys(formats);

/** Short enough for a move of the gateway to be noticed within a minute. */
export const RECORD_TTL_SECONDS = 60;

export interface DnsRequest extends Pick<DnsAnswers, 'addresses' | 'port' | 'serial'> {
  readonly hosts: readonly string[];
  /** Of these names alone, in the zones of all hosts. */
  readonly only?: readonly string[];
}

/** Undefined if there is no host to name. */
export function renderDns(format: string, { hosts, only, ...rest }: DnsRequest): string | undefined {
  const zones = zonesOf(hosts)
    .map(({ name, names }) => ({
      name,
      names: names.filter(each => only === undefined || only.includes(each.name)),
    }))
    .filter(({ names }) => names.length > 0);
  if (zones.length === 0) return undefined;
  return formats[format]({ zones, ttl: RECORD_TTL_SECONDS, ...rest });
}
