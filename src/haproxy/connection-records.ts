// What HAProxy logged, as the records that our own data path writes: a connection with its reason, and a request. A
// connection with cleartext HTTP is logged apart from its requests, and its record has the last request's route.

import { shownClusterId } from '../cluster/cluster-id.ts';
import { type CloseReason, closeReasons, served } from '../gateway/close-reason.ts';
import type { NamedRecord, NamedRequest } from '../gateway/control/gateway-port.ts';
import type { RecordAddress } from '../gateway/shared/record-ring.ts';
import { HTTP, NO_PROTOCOL, TLS } from '../gateway/shared/rows.ts';
import { dialFailureIndex } from '../gateway/stages/dial-failure.ts';
import type { RouteSlot } from '../gateway/table/table.ts';
import { parseIp } from '../wire/ip-address.ts';
import { closeReasonOf } from './close-reason-of.ts';
import { ALERT_BYTES, OVER_LIMIT_ANSWER } from './engine-script.ts';
import {
  type ConnectionLine,
  type ErrorLine,
  type LogLine,
  type Place,
  type RequestLine,
  SOCKET_ERROR,
} from './log-line.ts';

/** HTTP connections whose last request is remembered until they end. */
const MAX_REMEMBERED = 100_000;
/** As our own data path logs it. */
const CLIENT_GONE = 499;
/** HAProxy rounds times, so one that reached the limit may be logged as a little less. */
const EARLY_MS = 5;

export interface RecordNames {
  readonly routeAt: (slot: number) => RouteSlot | undefined;
  /** The backend of a route that has this address. */
  readonly backendAt: (route: number, place: Place) => KnownBackend | undefined;
}

export interface KnownBackend {
  readonly slot: number;
  readonly text: string;
}

export interface RecordSettings {
  readonly helloMs: number;
  readonly idleMs: number | undefined;
  readonly stalledMs: number | undefined;
  readonly log: 'all' | 'refused' | 'none';
}

interface LastRequest {
  readonly line: RequestLine;
  readonly reason: CloseReason;
  /** Of the connection's first request. */
  readonly firstHost: string;
}

export class ConnectionRecords {
  readonly #names: RecordNames;
  readonly #last = new Map<string, LastRequest>();

  constructor(names: RecordNames) {
    this.#names = names;
  }

  /** `killedAs`: what the end of a connection means that we ended ourselves. `on`: the listener as written. */
  take(
    line: LogLine,
    settings: RecordSettings,
    killedAs: CloseReason,
    on: string,
  ): {
    readonly connection?: NamedRecord;
    readonly request?: NamedRequest & { readonly logged: boolean };
  } {
    if (line.kind === 'error') return { connection: { ...this.#refused(line, settings), on } };
    if (line.kind === 'request') return { request: this.#request(line, settings) };
    return { connection: { ...this.#connection(line, settings, killedAs), on } };
  }

  #connection(
    line: ConnectionLine,
    settings: RecordSettings,
    killedAs: CloseReason,
  ): Omit<NamedRecord, 'on'> {
    const last = line.protocol === 'http' ? this.#takeLast(line.client) : undefined;
    const target = last?.line.target ?? line.target;
    const server = line.protocol === 'http' ? last?.line.server : line.server;
    const backend = target && server && this.#names.backendAt(target.route, server);
    const reason =
      last === undefined ? this.#reasonOf(line, settings, killedAs) : httpReason(last.reason, line.state);
    const isDialFailure = reason === 'connect-failed' || reason === 'connect-timeout';
    return {
      listener: line.listener,
      slot: target?.route ?? 0,
      route: target && this.#names.routeAt(target.route),
      backendSlot: backend?.slot ?? 0,
      backend: backend?.text,
      protocol: line.protocol === 'tls' ? TLS : line.protocol === 'http' ? HTTP : NO_PROTOCOL,
      reason: closeReasons.indexOf(reason),
      detail: isDialFailure ? dialFailureOf(last?.line ?? line, reason) : 0,
      detailSeconds: 0,
      peer: address(line.peer),
      client: address(line.client),
      origin: originOf(line),
      bytesIn: line.bytesIn,
      bytesOut: line.bytesOut + sentByScript(line),
      ms: line.ms,
      dialMs: last?.line.dialMs ?? line.dialMs,
      host: last?.firstHost ?? line.host,
      clusterId: line.clusterId === undefined ? '' : shownClusterId(line.clusterId),
      clientEndedFirst: line.state.startsWith('C'),
      logged: isLogged(reason, settings.log),
    };
  }

  /** HAProxy ends its wait for the first bytes with our last rule, also at the time limit and when the client left. */
  #reasonOf(line: ConnectionLine, settings: RecordSettings, killedAs: CloseReason): CloseReason {
    const isUnread = ['not-recognized', 'bad-hello', 'no-data'].includes(line.reason ?? '');
    if (isUnread && line.ms >= settings.helloMs - EARLY_MS) return 'hello-timeout';
    if (isUnread && line.bytesIn === 0) return 'no-data';
    if (line.state.startsWith('K')) return killedAs;
    const reason = closeReasonOf({
      state: line.state,
      backend: line.target?.section ?? '',
      server: line.server === undefined ? '' : 's',
      bytesIn: line.bytesIn,
      hasIdleTimeout: settings.idleMs !== undefined,
      ...(line.reason !== undefined && { reason: line.reason }),
    });
    return reason === 'client-reset' && line.dialMs < 0 ? 'client-gone' : reason;
  }

  #request(line: RequestLine, settings: RecordSettings): NamedRequest & { readonly logged: boolean } {
    const { target, server, client } = line;
    const reason = closeReasonOf({
      state: line.state,
      backend: target?.section ?? '',
      server: server === undefined ? '' : 's',
      status: line.status,
      bytesIn: line.bytesIn,
      hasIdleTimeout: settings.idleMs !== undefined || settings.stalledMs !== undefined,
      ...(line.reason !== undefined && { reason: line.reason }),
    });
    const oldest = this.#last.size >= MAX_REMEMBERED ? this.#last.keys().next().value : undefined;
    if (oldest !== undefined) this.#last.delete(oldest);
    const key = keyOf(client);
    this.#last.set(key, { line, reason, firstHost: this.#last.get(key)?.firstHost ?? line.host });
    return {
      ...address(client),
      host: line.host === '' ? undefined : line.host,
      slot: target?.route ?? 0,
      route: target && this.#names.routeAt(target.route),
      backend: target && server && this.#names.backendAt(target.route, server)?.text,
      method: line.method === '' ? undefined : line.method,
      status: isUnanswered(line) ? CLIENT_GONE : line.status,
      ms: line.ms,
      logged: isLogged(reason, settings.log),
    };
  }

  /** It never became a stream: HAProxy wanted a PROXY header and got none, or a bad one. */
  #refused(line: ErrorLine, settings: RecordSettings): Omit<NamedRecord, 'on'> {
    const reason = line.ms >= settings.helloMs ? 'hello-timeout' : 'bad-proxy-header';
    return {
      listener: line.listener,
      slot: 0,
      route: undefined,
      backendSlot: 0,
      backend: undefined,
      protocol: NO_PROTOCOL,
      reason: closeReasons.indexOf(reason),
      detail: 0,
      detailSeconds: 0,
      peer: address(line.peer),
      client: address(line.peer),
      origin: undefined,
      bytesIn: 0,
      bytesOut: 0,
      ms: line.ms,
      dialMs: -1,
      host: '',
      clusterId: '',
      clientEndedFirst: false,
      logged: isLogged(reason, settings.log),
    };
  }

  #takeLast(client: Place): LastRequest | undefined {
    const key = keyOf(client);
    const last = this.#last.get(key);
    this.#last.delete(key);
    return last;
  }
}

/** The client left before the backend answered; HAProxy then logs -1, or the 400 that nobody reads. */
function isUnanswered({ state, status }: RequestLine): boolean {
  return /^C[QCH]/.test(state) || (state.startsWith('C') && status < 0);
}

/** Between frontends a reset arrives as FIN: how the client left, only the connection itself tells. */
function httpReason(reason: CloseReason, state: string): CloseReason {
  if (reason !== 'client-reset' && reason !== 'client-gone') return reason;
  return state.startsWith('C') ? 'client-reset' : 'client-gone';
}

/** Only the kernel's own refusals are known: other errors than a time-out are shown as `refused`. */
function dialFailureOf(line: ConnectionLine | RequestLine, reason: CloseReason): number {
  if (line.target?.isUnresolved === true) return dialFailureIndex['name-not-found'];
  if (line.dialError === SOCKET_ERROR) return dialFailureIndex.unreachable;
  return reason === 'connect-timeout' ? dialFailureIndex.timeout : dialFailureIndex.refused;
}

/** The alert or the answer to a client that a rule refused. */
function sentByScript({ reason, protocol }: ConnectionLine): number {
  if (reason === undefined) return 0;
  if (protocol === 'tls') return ALERT_BYTES;
  return protocol === 'http' && reason === 'over-limit' ? OVER_LIMIT_ANSWER.length : 0;
}

/** A load balancer's empty probe is counted and not logged. */
function isLogged(reason: CloseReason, log: RecordSettings['log']): boolean {
  if (reason === 'no-data' || log === 'none') return false;
  return log === 'all' || !served.has(reason);
}

/** A LOCAL header has no source: HAProxy then shows the peer itself. */
function originOf({ origin, peer }: ConnectionLine): RecordAddress | undefined {
  if (origin === undefined || (origin.address === peer.address && origin.port === peer.port))
    return undefined;
  return address(origin);
}

export function address({ address: text, port }: Place): RecordAddress {
  return { address: parseIp(text) ?? new Uint8Array(16), port };
}

function keyOf({ address: text, port }: Place): string {
  return `${text} ${port}`;
}
