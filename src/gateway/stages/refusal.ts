// The answer to a refused client: a TLS alert, an HTTP status, or nothing where the protocol has no answer. The entries
// match the table of close reasons in docs/close-reasons.md.

import { type Alert, tlsAlert } from '../../wire/tls-alert.ts';
import type { CloseReason } from '../close-reason.ts';
import { CONNECT, HTTP, TLS } from '../shared/rows.ts';

interface Refusal {
  readonly alert?: Alert;
  readonly http?: number;
  readonly connect?: number;
  readonly text?: string;
}

const refusals: Partial<Record<CloseReason, Refusal>> = {
  'hello-timeout': { http: 408, connect: 408, text: 'the request took too long to arrive' },
  // Only for an HTTP request whose body stopped midway.
  'idle-timeout': { http: 408, text: 'the request stopped before it was complete' },
  'bad-hello': { alert: 'decode_error' },
  'no-sni': { alert: 'unrecognized_name' },
  'unknown-host': {
    alert: 'unrecognized_name',
    http: 421,
    connect: 404,
    text: 'no such host is served here',
  },
  'untrusted-agent': { connect: 403, text: 'CONNECT is for agents only' },
  'unknown-cluster': { alert: 'access_denied' },
  'bad-signature': { alert: 'access_denied', connect: 403, text: 'the signature is missing or wrong' },
  'not-allowed': { alert: 'access_denied', http: 403, connect: 403, text: 'this address is not allowed' },
  'over-limit': { alert: 'internal_error', http: 503, connect: 503, text: 'too many connections' },
  'no-backend': { alert: 'internal_error', http: 503, connect: 503, text: 'there is no backend' },
  'connect-failed': { alert: 'internal_error', http: 502, connect: 502, text: 'no backend could be reached' },
  'connect-timeout': {
    alert: 'internal_error',
    http: 504,
    connect: 504,
    text: 'no backend answered in time',
  },
  'backend-reset': { http: 502, text: 'the backend closed before it answered' },
  'bad-request': { http: 400, connect: 400, text: 'the request is malformed' },
};

const statusTexts: Record<number, string> = {
  400: 'Bad Request',
  403: 'Forbidden',
  404: 'Not Found',
  408: 'Request Timeout',
  421: 'Misdirected Request',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
};

const nothing = new Uint8Array(0);

/**
 * The bytes to send, or none. They are shared and must not be modified. `text` replaces the usual explanation in the
 * body of an HTTP answer.
 */
export function refusalBytes(reason: CloseReason, protocol: number, text?: string): Uint8Array {
  const refusal = refusals[reason];
  if (refusal === undefined) return nothing;
  if (protocol === TLS) return refusal.alert === undefined ? nothing : tlsAlert(refusal.alert);
  const status = protocol === HTTP ? refusal.http : protocol === CONNECT ? refusal.connect : undefined;
  if (status === undefined) return nothing;
  return text === undefined
    ? usualResponse(status, reason, refusal.text ?? '')
    : httpResponse(status, reason, text);
}

/** The HTTP status of a refusal for that reason; 0 if it has none. */
export function refusalStatus(reason: CloseReason): number {
  return refusals[reason]?.http ?? 0;
}

/** What a refused HTTP client reads. */
export function refusalSentence(reason: CloseReason): string {
  return `${reason}: ${refusals[reason]?.text ?? ''}`;
}

const responses = new Map<string, Uint8Array>();

function usualResponse(status: number, reason: CloseReason, text: string): Uint8Array {
  const key = `${status} ${reason}`;
  let bytes = responses.get(key);
  if (bytes === undefined) {
    bytes = httpResponse(status, reason, text);
    responses.set(key, bytes);
  }
  return bytes;
}

function httpResponse(status: number, reason: CloseReason, text: string): Uint8Array {
  const body = `${reason}: ${text}\n`;
  return Buffer.from(
    `HTTP/1.1 ${status} ${statusTexts[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n` +
      `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    'latin1',
  );
}
