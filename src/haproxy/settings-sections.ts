// What holds for the whole of HAProxy: the sections `global`, `defaults` and `resolvers`.

import { isIP } from 'node:net';
import type { Config } from '../config/config.ts';
import { type Section, time } from './section.ts';

/** The name of the section that looks up backends given by name. */
export const RESOLVERS = 'system';

/** HAProxy wants a timeout; this is the longest it knows. */
const NEVER_MS = Number.POSITIVE_INFINITY;

const logLevel: Readonly<Record<string, string>> = {
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warn: 'warning',
  error: 'err',
  fatal: 'crit',
};

export function globalSection({ limits, log, timeouts, workers }: Config): Section {
  const lines = [
    ...(log.level === 'silent' ? [] : [`log stdout format raw daemon ${logLevel[log.level]}`]),
    ...(limits.connections === undefined ? [] : [`maxconn ${limits.connections}`]),
    ...(workers === 'auto' ? [] : [`nbthread ${workers}`]),
    // As the gateway spreads its checks: ± 10 %.
    'spread-checks 10',
    `hard-stop-after ${time(timeouts.drainMs)}`,
  ];
  return { head: 'global', lines };
}

export function defaultsSection(config: Config): Section {
  const { log, retries, timeouts } = config;
  return {
    head: 'defaults',
    lines: [
      'mode tcp',
      ...(!isLogged(config)
        ? []
        : [
            'log global',
            'option tcplog',
            'option dontlognull',
            ...(log.connections === 'refused' ? ['option dontlog-normal'] : []),
          ]),
      '',
      ...timeoutLines(timeouts),
      '',
      `retries ${retries}`,
      ...(retries > 0 ? ['option redispatch 1'] : []),
      ...keepaliveLines(timeouts.keepaliveMs),
    ],
  };
}

export function isLogged({ log }: Pick<Config, 'log'>): boolean {
  return log.level !== 'silent' && log.connections !== 'none';
}

/** Only where a backend has a name: HAProxy looks it up once at the start, and again while it runs. */
export function resolversSections({ clusters }: Pick<Config, 'clusters'>): readonly Section[] {
  const isNamed = clusters.some(({ routes }) =>
    routes.some(({ pool }) => pool.backends.some(({ host }) => isIP(host) === 0)),
  );
  if (!isNamed) return [];
  return [
    {
      comments: ["Backends given by name are looked up again and again, by the machine's own resolvers."],
      head: `resolvers ${RESOLVERS}`,
      lines: ['parse-resolv-conf', 'hold valid 10s'],
    },
  ];
}

function timeoutLines(timeouts: Config['timeouts']): readonly string[] {
  const { connectMs, helloMs, idleMs = NEVER_MS, halfClosedMs } = timeouts;
  const halfClosed =
    halfClosedMs === undefined
      ? []
      : [`timeout client-fin ${time(halfClosedMs)}`, `timeout server-fin ${time(halfClosedMs)}`];
  return [
    `timeout connect ${time(connectMs)}`,
    `timeout http-request ${time(helloMs)}`,
    ...(idleMs === NEVER_MS ? ['# Watches are silent for minutes, so nothing is cut for being idle.'] : []),
    `timeout client ${time(idleMs)}`,
    `timeout server ${time(idleMs)}`,
    ...(idleMs === NEVER_MS ? [] : [`timeout tunnel ${time(idleMs)}`]),
    ...halfClosed,
  ];
}

function keepaliveLines(keepaliveMs: number | undefined): readonly string[] {
  if (keepaliveMs === undefined) return [];
  const seconds = `${Math.max(1, Math.round(keepaliveMs / 1000))}s`;
  return [
    '',
    'option clitcpka',
    `clitcpka-idle ${seconds}`,
    `clitcpka-intvl ${seconds}`,
    'option srvtcpka',
    `srvtcpka-idle ${seconds}`,
    `srvtcpka-intvl ${seconds}`,
  ];
}
