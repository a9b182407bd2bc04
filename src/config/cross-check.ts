// Checks that involve several keys: addresses that compete, an admin API open to everyone, ids that could never be
// verified. Like claims.ts, works on the unvalidated data and skips what the schema refuses.

import { formatHostPort, isLoopback, overlap, readListenAddress } from './address.ts';
import { checkClaims, type Report } from './claims.ts';
import { DEFAULT_ADMIN, type ListenAddress } from './config.ts';
import { isRecord } from './is-record.ts';
import type { Path } from './mistake.ts';
import { quote } from './reading.ts';

export function crossCheck(data: unknown, placeOf: (path: Path) => string, report: Report): void {
  if (!isRecord(data)) return;
  checkAddresses(data, placeOf, report);
  checkAdmin(data.admin, report);
  checkIdentity(data, report);
  checkClaims(data, placeOf, report);
}

interface Claimed {
  readonly address: ListenAddress;
  readonly path: Path;
  readonly text: string;
}

function checkAddresses(
  data: Record<string, unknown>,
  placeOf: (path: Path) => string,
  report: Report,
): void {
  const byPort = new Map<number, Claimed[]>();
  for (const { path, on } of addressesOf(data)) {
    const reading = readListenAddress(on);
    if ('fault' in reading) continue;
    const claim = { address: reading.value, path, text: quote(String(on)) };
    const taken = byPort.get(claim.address.port) ?? [];
    byPort.set(claim.address.port, taken);
    const rival = taken.find(other => overlap(other.address, claim.address));
    if (rival === undefined) taken.push(claim);
    else if (rival.text === claim.text)
      report(path, `${rival.text} is already used at ${placeOf(rival.path)}: keep one`);
    else
      report(
        path,
        `${claim.text} overlaps ${rival.text} at ${placeOf(rival.path)}: keep one, or change a port`,
      );
  }
  if (isRecord(data.admin) && data.admin.on !== undefined) return;
  const rival = byPort.get(DEFAULT_ADMIN.port)?.find(other => overlap(other.address, DEFAULT_ADMIN));
  if (rival === undefined) return;
  const usual = quote(formatHostPort(DEFAULT_ADMIN.host, DEFAULT_ADMIN.port));
  report(rival.path, `${rival.text} overlaps the default of admin.on, ${usual}: change one of the ports`);
}

function* addressesOf(data: Record<string, unknown>): Generator<{ path: Path; on: unknown }> {
  const { listen, admin, tunnel, outputs } = data;
  for (const [i, listener] of (Array.isArray(listen) ? listen : []).entries()) {
    if (isRecord(listener)) yield { path: ['listen', i, 'on'], on: listener.on };
    else yield { path: ['listen', i], on: listener };
  }
  if (isRecord(admin)) yield { path: ['admin', 'on'], on: admin.on };
  if (isRecord(tunnel)) yield { path: ['tunnel', 'on'], on: tunnel.on };
  for (const [i, output] of (Array.isArray(outputs) ? outputs : []).entries()) {
    const server = isRecord(output) ? output.dnsServer : undefined;
    if (isRecord(server)) yield { path: ['outputs', i, 'dnsServer', 'on'], on: server.on };
  }
}

function checkAdmin(admin: unknown, report: Report): void {
  if (!isRecord(admin)) return;
  const { on, auth } = admin;
  const reading = readListenAddress(on);
  const open = auth === undefined || (Array.isArray(auth) && auth.length === 0);
  if (open && 'value' in reading && !isLoopback(reading.value.host)) {
    const advice = 'set admin.auth, or use "127.0.0.1:9440" to serve only this machine';
    report(['admin', 'on'], `would let anyone in: ${advice}: current value is ${quote(String(on))}`);
  }
  const seen = new Set<unknown>();
  for (const [i, user] of (Array.isArray(auth) ? auth : []).entries()) {
    const username = isRecord(user) ? user.username : undefined;
    if (typeof username !== 'string') continue;
    if (seen.has(username))
      report(['admin', 'auth', i, 'username'], `${quote(username)} is already in this list: keep one`);
    seen.add(username);
  }
}

function checkIdentity(data: Record<string, unknown>, report: Report): void {
  if (data.identity !== undefined) return;
  const without = 'signed ids need the top-level key identity.secretFile: it is missing';
  if (data.tunnel !== undefined) report(['tunnel'], without);
  for (const [i, cluster] of (Array.isArray(data.clusters) ? data.clusters : []).entries()) {
    if (isRecord(cluster) && cluster.identity === 'required') report(['clusters', i, 'identity'], without);
  }
  for (const [i, output] of (Array.isArray(data.outputs) ? data.outputs : []).entries()) {
    // The gateway's end of tunnels takes signed ids only; the other uplinks work without.
    const agent = isRecord(output) ? output.tenantAgent : undefined;
    if (isRecord(agent) && agent.uplink === 'tunnel')
      report(
        ['outputs', i, 'tenantAgent', 'uplink'],
        `"tunnel" needs signed ids: add identity: { secretFile: FILE } at the top level, or use another uplink`,
      );
  }
}
