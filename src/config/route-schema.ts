// The keys that every route in causeway.yaml may have: hosts, backends, balance, health.

import { balances, type Health, type HealthCheck, healthChecks, proxyProtocols } from '../cluster/cluster.ts';
import { readBackend, readCidr } from './address.ts';
import { distinct, durationMs, field, form, list, map, oneOf, wholeNumber } from './fields.ts';
import { readHost, readHostPattern, readHostPatternOrAll } from './host.ts';
import { bad, good } from './reading.ts';
import { defaultsOf, type KindWithDefaults } from './to-route.ts';

/** RFC 7301 3.1: a protocol name has a one-byte length and is never empty. */
const MAX_ALPN_BYTES = 255;

/** Nobody waits for more checks than this: a larger number is a typing mistake. */
const MAX_IN_A_ROW = 1000;

const NO_CHECKS = 'cannot be off: use check: none to disable health checks';

export const hosts = list(field(readHostPattern), '[api.example.com]').check(distinct(host => host));
export const hostsOrAll = list(field(readHostPatternOrAll), '["*.apps.example.com"]').check(
  distinct(host => host),
);
export const exactHosts = list(field(readHost), '[api.example.com]').check(distinct(host => host));
export const cidrs = list(field(readCidr), '[10.0.0.0/8]');
export const poolBackends = list(field(readBackend), '["192.0.2.1:6443"], or [] for none yet').check(
  distinct(backend => backend.text),
);

const alpn = field(value => {
  const fits = typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= MAX_ALPN_BYTES;
  return fits ? good(value) : bad(`an ALPN protocol such as h2, of 1 to ${MAX_ALPN_BYTES} bytes`, value);
});

/** The keys of a route except its hosts. */
export function poolShape(kind: KindWithDefaults) {
  return {
    backends: poolBackends,
    balance: oneOf(balances).optional(),
    health: health(kind).optional(),
    proxyProtocol: oneOf(proxyProtocols).optional(),
    connect: exactHosts.optional(),
    alpn: list(alpn, '[h2]').optional(),
    allow: cidrs.optional(),
  };
}

function health(kind: KindWithDefaults) {
  const usual = defaultsOf[kind].health;
  return map({
    check: oneOf(healthChecks).optional(),
    every: durationMs(1, NO_CHECKS).optional(),
    timeout: durationMs(1, NO_CHECKS).optional(),
    rise: wholeNumber(1, MAX_IN_A_ROW).optional(),
    fall: wholeNumber(1, MAX_IN_A_ROW).optional(),
    path: form(/^\/[\x21-\x7e]*$/, 'a path such as "/readyz", without spaces').optional(),
    serverName: field(readHost).optional(),
  }).transform((given, context): Health => {
    const { check = usual.check, path, serverName } = given;
    const needs = (key: 'path' | 'serverName', checks: readonly HealthCheck[]) => {
      if (given[key] === undefined || checks.includes(check)) return;
      const message = `needs check: ${checks.join(' or ')}: current check is ${check}`;
      context.issues.push({ code: 'custom', message, path: [key], input: given[key] });
    };
    needs('path', ['https', 'http']);
    needs('serverName', ['tls', 'https']);
    return {
      check,
      everyMs: given.every ?? usual.everyMs,
      timeoutMs: given.timeout ?? usual.timeoutMs,
      rise: given.rise ?? usual.rise,
      fall: given.fall ?? usual.fall,
      ...(path !== undefined && { path }),
      ...(serverName !== undefined && { serverName }),
    };
  });
}
