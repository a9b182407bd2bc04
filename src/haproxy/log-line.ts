// The lines that HAProxy writes about connections and requests, in a format of our own. Fields are separated by spaces
// and a missing one is `-`. What a client chose (names, ids, methods) is in base64, so that it cannot forge a field. Pure.

import { parseTarget, type Target } from './haproxy-table.ts';

/** A value that a client chose. */
const encoded = (variable: string) => `%[var(${variable}),base64]`;
const plain = (variable: string) => `%[var(${variable})]`;

/**
 * `bc_err` of a dial that the kernel refused at once: no route, or a rule of the local firewall. Errors that arrive
 * later, such as a reset or an ICMP message, have no code.
 */
export const SOCKET_ERROR = 6;

export const CONNECTION_FORMAT = [
  'C',
  '%f',
  plain('sess.peer'),
  plain('sess.peer_port'),
  plain('sess.client'),
  plain('sess.client_port'),
  plain('sess.origin'),
  plain('sess.origin_port'),
  plain('txn.protocol'),
  encoded('txn.host'),
  encoded('sess.id'),
  // Tells an empty id from none.
  '%[var(sess.id),length]',
  plain('txn.target'),
  plain('txn.reason'),
  '%si',
  '%sp',
  '%ts',
  '%U',
  '%B',
  '%Tt',
  '%Tc',
  '%[bc_err]',
].join(' ');

export const REQUEST_FORMAT = [
  'R',
  '%f',
  '%ci',
  '%cp',
  encoded('txn.host'),
  plain('txn.target'),
  plain('txn.reason'),
  '%si',
  '%sp',
  '%ts',
  encoded('txn.method'),
  '%ST',
  '%U',
  '%B',
  '%Ta',
  '%Tc',
  '%[bc_err]',
].join(' ');

/** The connection ended before it was a stream: its PROXY header is bad, or never came. */
export const ERROR_FORMAT = 'E %f %ci %cp %[fc_err] %U %Tt';

export interface Place {
  readonly address: string;
  readonly port: number;
}

export interface ConnectionLine {
  readonly kind: 'connection';
  /** Index of the listener. */
  readonly listener: number;
  readonly peer: Place;
  readonly client: Place;
  readonly origin: Place | undefined;
  readonly protocol: 'tls' | 'http' | undefined;
  readonly host: string;
  /** '' for an empty one. */
  readonly clusterId: string | undefined;
  readonly target: Target | undefined;
  /** Set by a rule of ours. */
  readonly reason: string | undefined;
  /** The address that was dialled last. */
  readonly server: Place | undefined;
  /** HAProxy's termination state: two letters (Configuration Manual, 8.5). */
  readonly state: string;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly ms: number;
  /** -1 if no server was reached. */
  readonly dialMs: number;
  /** `bc_err`: the error of the last attempt (Configuration Manual, 7.3.3, fc_err); 0 if HAProxy has none. */
  readonly dialError: number;
}

export interface RequestLine {
  readonly kind: 'request';
  readonly listener: number;
  readonly client: Place;
  readonly host: string;
  readonly target: Target | undefined;
  readonly reason: string | undefined;
  readonly server: Place | undefined;
  readonly state: string;
  readonly method: string;
  readonly status: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly ms: number;
  readonly dialMs: number;
  readonly dialError: number;
}

export interface ErrorLine {
  readonly kind: 'error';
  readonly listener: number;
  readonly peer: Place;
  readonly error: number;
  readonly ms: number;
}

export type LogLine = ConnectionLine | RequestLine | ErrorLine;

/** undefined for everything that is none of our formats: HAProxy's own notices, and lines that were cut. */
export function parseLogLine(line: string): LogLine | undefined {
  const fields = line.split(' ');
  const listener = Number(/^[lh](\d{1,4})$/.exec(fields[1] ?? '')?.[1] ?? Number.NaN);
  if (Number.isNaN(listener)) return undefined;
  const kind = fields[0];
  if (kind === 'C' && fields.length === CONNECTION_FORMAT.split(' ').length)
    return connectionLine(listener, fields);
  if (kind === 'R' && fields.length === REQUEST_FORMAT.split(' ').length)
    return requestLine(listener, fields);
  if (kind === 'E' && fields.length === ERROR_FORMAT.split(' ').length) return errorLine(listener, fields);
  return undefined;
}

function connectionLine(listener: number, fields: readonly string[]): ConnectionLine | undefined {
  const peer = placeOf(fields[2], fields[3]);
  const client = placeOf(fields[4], fields[5]) ?? peer;
  if (peer === undefined || client === undefined) return undefined;
  const protocol = fields[8];
  return {
    kind: 'connection',
    listener,
    peer,
    client,
    origin: placeOf(fields[6], fields[7]),
    protocol: protocol === 'tls' || protocol === 'http' ? protocol : undefined,
    host: decoded(fields[9]),
    clusterId: given(fields[11]) === undefined ? undefined : decoded(fields[10]),
    target: parseTarget(fields[12]),
    reason: given(fields[13]),
    server: placeOf(fields[14], fields[15]),
    state: fields[16],
    bytesIn: count(fields[17]),
    bytesOut: count(fields[18]),
    ms: count(fields[19]),
    dialMs: signed(fields[20]),
    dialError: count(fields[21]),
  };
}

function requestLine(listener: number, fields: readonly string[]): RequestLine | undefined {
  const client = placeOf(fields[2], fields[3]);
  if (client === undefined) return undefined;
  return {
    kind: 'request',
    listener,
    client,
    host: decoded(fields[4]),
    target: parseTarget(fields[5]),
    reason: given(fields[6]),
    server: placeOf(fields[7], fields[8]),
    state: fields[9],
    method: decoded(fields[10]),
    status: signed(fields[11]),
    bytesIn: count(fields[12]),
    bytesOut: count(fields[13]),
    ms: count(fields[14]),
    dialMs: signed(fields[15]),
    dialError: count(fields[16]),
  };
}

function errorLine(listener: number, fields: readonly string[]): ErrorLine | undefined {
  const peer = placeOf(fields[2], fields[3]);
  if (peer === undefined) return undefined;
  return { kind: 'error', listener, peer, error: count(fields[4]), ms: count(fields[6]) };
}

function given(field: string): string | undefined {
  return field === '-' || field === '' ? undefined : field;
}

function placeOf(address: string, port: string): Place | undefined {
  return given(address) === undefined ? undefined : { address, port: count(port) };
}

/** As latin1, which is how names are shown everywhere. */
function decoded(field: string): string {
  return given(field) === undefined ? '' : Buffer.from(field, 'base64').toString('latin1');
}

/** HAProxy puts `+` in front of a figure that may have grown since. */
function signed(field: string): number {
  const value = Number(field.replace(/^\+/, ''));
  return Number.isFinite(value) ? value : -1;
}

function count(field: string): number {
  return Math.max(0, signed(field));
}
