// A network for tests in which everything is well until a test says otherwise.

import type { Config } from '../config/config.ts';
import { readConfig } from '../config/read-config.ts';
import type { GatewayPlaces } from './gateway-places.ts';
import type { Network, ServedCertificate, Shaken } from './network.ts';

const NOW = Date.UTC(2026, 0, 1);
const YEAR_MS = 365 * 86_400_000;

export function sampleNetwork(network: Partial<Network> = {}): Network {
  return {
    dial: async () => ({ ok: true, local: '192.0.2.2' }),
    shake: async () => sampleShaken(),
    ask: async () => ({ ok: true, status: 200, date: NOW, body: 'ok' }),
    ...network,
  };
}

export function sampleShaken(...names: readonly string[]): Extract<Shaken, { ok: true }> {
  return { ok: true, alpn: 'h2', certificate: sampleCertificate(...names) };
}

/** For these names; without any, for all. */
export function sampleCertificate(...names: readonly string[]): ServedCertificate {
  const covers = (name: string) =>
    names.length === 0 ||
    names.some(
      one => one === name || (one.startsWith('*.') && one.slice(1) === name.slice(name.indexOf('.'))),
    );
  return { covers, names, notBefore: NOW - YEAR_MS, notAfter: NOW + YEAR_MS, fingerprint: names.join() };
}

export function sampleConfig(text: string): Config {
  const read = readConfig(text, 'causeway.yaml');
  if (!read.ok) throw new Error(read.mistakes.map(mistake => mistake.text).join('\n'));
  return read.config;
}

/** One listener that serves everything. */
export function samplePlaces(
  config: Pick<Config, 'listen'>,
  places: Partial<GatewayPlaces> = {},
): GatewayPlaces {
  const all = config.listen.map(listener => ({ listener, at: { host: '192.0.2.1', port: listener.port } }));
  return { all, placeOf: () => all[0], expected: undefined, isLocal: false, ...places };
}
