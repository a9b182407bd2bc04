// What HAProxy itself answers over cleartext HTTP, as our own data path does: a status, the reason in a sentence, and the
// end of the connection. Refusals by rule are `http-request return`; what HAProxy's parser and its dial refuse is answered
// from files and by `http-error`. Pure.

import type { CloseReason } from '../gateway/close-reason.ts';
import type { Settings } from '../gateway/stages/data-path.ts';
import { refusalSentence, refusalStatus } from '../gateway/stages/refusal.ts';

/** Why HAProxy gives up on a backend that it has reached. Our own data path has no limit for that. */
const NO_ANSWER = 'idle-timeout: the backend did not answer in time';

/** The parser answers with whole files: it has no stream yet in which a rule could run. */
const errors: readonly { readonly status: number; readonly text: string; readonly sentence: string }[] = [
  { status: 400, text: 'Bad Request', sentence: refusalSentence('bad-request') },
  { status: 408, text: 'Request Timeout', sentence: refusalSentence('hello-timeout') },
  { status: 502, text: 'Bad Gateway', sentence: refusalSentence('backend-reset') },
  { status: 504, text: 'Gateway Timeout', sentence: NO_ANSWER },
];

const errorFile = (status: number) => `${status}.http`;

/** By name: the files that `errorLines` refers to. */
export const errorFiles: readonly (readonly [string, string])[] = errors.map(({ status, text, sentence }) => {
  const body = `${sentence}\n`;
  const head = [
    `HTTP/1.1 ${status} ${text}`,
    'content-type: text/plain',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  return [errorFile(status), `${head.join('\r\n')}\r\n\r\n${body}`] as const;
});

/** For every section in HTTP mode. */
export function errorLines(folder: string): readonly string[] {
  return errors.map(({ status }) => `errorfile ${status} ${folder}/${errorFile(status)}`);
}

/**
 * For a backend in HTTP mode, after its other rules. HAProxy answers 503 to every failed dial and does not tell why; if
 * the time of all attempts is over, it was the time limit.
 */
export function dialErrorLines({
  connectMs,
  retries,
}: Pick<Settings, 'connectMs' | 'retries'>): readonly string[] {
  const isTimeout = `date(0,ms),sub(txn.dialled_at),sub(${connectMs * (retries + 1)})`;
  const isFailedDial = '{ status 503 } !{ var(txn.is_served) -m found } !{ var(txn.reason) -m found }';
  return [
    'http-request set-var(txn.dialled_at) date(0,ms)',
    `http-error status 503 content-type text/plain lf-string "%[${isTimeout},and(4294967296),bool,iif(connect-failed,connect-timeout)]: the backend cannot be reached\\n" hdr connection close`,
    'http-response set-var(txn.is_served) bool(true)',
    `http-after-response set-status 504 reason "Gateway Timeout" if ${isFailedDial} { ${isTimeout} ge 0 }`,
    `http-after-response set-status 502 reason "Bad Gateway" if ${isFailedDial}`,
  ];
}

/** A rule that refuses. `text`, a log format, replaces the reason's usual sentence. */
export function refusal(reason: CloseReason, condition: string, text?: string): string {
  const body = text === undefined ? `string "${refusalSentence(reason)}` : `lf-string "${reason}: ${text}`;
  return `http-request return status ${refusalStatus(reason)} content-type text/plain ${body}\\n" hdr connection close if ${condition}`;
}
