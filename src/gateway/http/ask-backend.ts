// pass on, for a request that has no body and may be sent again, which most are: over a kept connection, or a new one
// that is kept afterwards. The client gets the answer as it comes, as fast as it takes it.

import type { ResponseHead } from '../../wire/http-response.ts';
import { latin1 } from '../../wire/latin1.ts';
import { guard } from '../guard.ts';
import { type BackendRequest, dialAddresses } from './backend-agent.ts';
import type { Exchange } from './exchange.ts';
import { responseHeaders, trailers } from './forward-headers.ts';
import type { HttpThread } from './http-thread.ts';
import type { KeptConnection, ResponseReceiver } from './kept-connections.ts';
import { type AnswerHead, sendInformational } from './send-informational.ts';

/** What node:http reads and must not be passed on: RFC 9110 5.5 allows none of these in a value. */
const CONTROL = /[^\t\x20-\x7e\x80-\xff]/;
const NOT_IN_TARGET = /[^\x21-\x7e\x80-\xff]/;

/** A body up to this size goes out as text: node:http puts it behind the head and writes both at once. */
const AS_TEXT = 4096;

/** Before anything of the answer has reached the client; `wasKept`: the connection had served others. */
export interface Asking {
  connected(wasKept: boolean): void;
  failed(cause: Error, wasKept: boolean): void;
}

/** The whole request as text, one character per byte; undefined when a byte in it must not be passed on. */
export function requestText(method: string, target: string, headers: readonly string[]): string | undefined {
  if (NOT_IN_TARGET.test(target)) return undefined;
  let text = `${method} ${target} HTTP/1.1\r\n`;
  for (let at = 0; at < headers.length; at += 2) {
    if (CONTROL.test(headers[at + 1])) return undefined;
    text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  }
  return `${text}\r\n`;
}

export function askBackend(
  thread: HttpThread,
  exchange: Exchange,
  request: BackendRequest,
  text: string,
  asking: Asking,
): void {
  const kept = thread.kept.take(request.backend.slot);
  if (kept !== undefined) return ask(thread, exchange, kept, text, asking);
  dialAddresses(request, (error, socket) => {
    if (exchange.isOver) socket?.destroy();
    else if (socket === undefined) asking.failed(error ?? new Error('No connection'), false);
    else ask(thread, exchange, thread.kept.add(request.backend.slot, socket), text, asking);
  });
}

function ask(
  thread: HttpThread,
  exchange: Exchange,
  connection: KeptConnection,
  text: string,
  asking: Asking,
): void {
  const { request, response } = exchange;
  const wasKept = connection.isReused;
  const receiver: ResponseReceiver = {
    informational: head => sendInformational(exchange, answerHead(head)),
    answered(head) {
      if (thread.isDraining) response.shouldKeepAlive = false;
      try {
        const isChunked = hasChunks(head) && request.httpVersion === '1.1' && request.method !== 'HEAD';
        response.writeHead(
          head.status,
          head.reason,
          responseHeaders(head.headers, { status: head.status, upgrade: false, isChunked }),
        );
      } catch {
        // A byte that node:http does not write.
        return thread.refuse(exchange, 'backend-reset');
      }
      exchange.status = head.status;
    },
    waiting: () => response.flushHeaders(),
    data(bytes) {
      if (response.write(bytes)) return true;
      response.once(
        'drain',
        guard(exchange.connection, () => connection.resume(receiver)),
      );
      return false;
    },
    ended(last, raw) {
      exchange.kept = undefined;
      if (raw.length > 0) response.addTrailers(trailers(raw));
      if (last === undefined) response.end();
      else if (last.length <= AS_TEXT) response.end(latin1(last, 0, last.length), 'latin1');
      else response.end(last);
    },
    failed(cause) {
      exchange.kept = undefined;
      if (exchange.isOver) return;
      if (response.headersSent) thread.cut(exchange, 'backend-reset');
      else asking.failed(cause, wasKept);
    },
    onFault: error => exchange.connection.onFault(error),
  };
  exchange.kept = connection;
  asking.connected(wasKept);
  connection.ask(request.method ?? 'GET', text, receiver);
}

function answerHead({ status, reason, headers }: ResponseHead): AnswerHead {
  return { statusCode: status, statusMessage: reason, rawHeaders: headers };
}

function hasChunks({ headers }: ResponseHead): boolean {
  return headers.some((text, at) => at % 2 === 0 && text.toLowerCase() === 'transfer-encoding');
}
