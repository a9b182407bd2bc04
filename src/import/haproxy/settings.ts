// Settings for the whole gateway, from sections that may each have their own: time-outs, retries, connections.

import type { Imported } from '../imported.ts';
import type { Report } from './pool.ts';
import { lineOf, type Section } from './sections.ts';
import { toMs } from './to-ms.ts';

/** Watches are silent for minutes; a shorter time-out for silence cuts them. */
const SHORTEST_IDLE_MS = 600_000;
/** Longer ones mean never. */
const LONGEST_IDLE_MS = 7 * 86_400_000;
/** As long as causeway.yaml allows. */
const LONGEST_MS = 596 * 3_600_000;
const MAX_RETRIES = 100;

export function readSettings(
  sections: readonly Section[],
  report: Report,
): Pick<Imported, 'timeouts' | 'retries' | 'connections'> {
  const proxies = sections.filter(
    ({ kind, lines }) =>
      ['frontend', 'backend', 'listen'].includes(kind) && !lines.some(line => line.words[0].text === 'stats'),
  );
  const longest = (...keywords: readonly string[]) => {
    const found = proxies
      .map(section => toMs(lineOf(section, ...keywords)?.words[keywords.length]?.text))
      .filter(ms => ms !== undefined);
    return found.length === 0 ? undefined : Math.min(Math.max(...found), LONGEST_MS);
  };
  const hello = longest('tcp-request', 'inspect-delay');
  const connect = longest('timeout', 'connect');
  const idle =
    longest('timeout', 'tunnel') ?? shortest(longest('timeout', 'client'), longest('timeout', 'server'));
  const halfClosed = longest('timeout', 'client-fin') ?? longest('timeout', 'server-fin');
  const retries = proxies
    .map(section => Number(lineOf(section, 'retries')?.words[1]?.text))
    .filter(Number.isInteger);
  const maximum = sections.filter(({ kind }) => kind === 'global').map(section => lineOf(section, 'maxconn'));
  const connections = Number(maximum.findLast(line => line !== undefined)?.words[1]?.text);
  warnOfShortTimeouts(proxies, report);
  return {
    timeouts: {
      ...(hello !== undefined && { hello }),
      ...(connect !== undefined && { connect }),
      ...(idle !== undefined && idle >= SHORTEST_IDLE_MS && idle < LONGEST_IDLE_MS && { idle }),
      ...(halfClosed !== undefined && { halfClosed }),
    },
    ...(retries.length > 0 && { retries: Math.min(Math.max(...retries, 0), MAX_RETRIES) }),
    ...(Number.isSafeInteger(connections) && connections > 0 && { connections }),
  };
}

function shortest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

function warnOfShortTimeouts(proxies: readonly Section[], report: Report): void {
  const seen = new Set<unknown>();
  for (const section of proxies) {
    const tunnel = toMs(lineOf(section, 'timeout', 'tunnel')?.words[2]?.text);
    if (tunnel !== undefined && tunnel >= SHORTEST_IDLE_MS) continue;
    for (const side of ['client', 'server', 'tunnel']) {
      const line = lineOf(section, 'timeout', side);
      const text = line?.words[2]?.text;
      const ms = toMs(text);
      if (line === undefined || seen.has(line) || ms === undefined || ms >= SHORTEST_IDLE_MS) continue;
      seen.add(line);
      report(
        line.place,
        'warning',
        `timeout ${side} ${text} cuts watches and 'logs -f', which are silent for longer: it is not carried over, and timeouts.idle is off`,
      );
    }
  }
}
