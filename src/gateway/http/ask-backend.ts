// pass on, for a request that has no body and may be sent again, as most may: over a kept connection, or over a new one
// that is kept afterwards. The response streams to the client at the client's pace.

import type { ResponseHead } from '../../wire/http-response.ts';
import { latin1 } from '../../wire/latin1.ts';
import { guard } from '../guard.ts';
import { type BackendRequest, dialAddresses } from './backend-agent.ts';
import type { Exchange } from './exchange.ts';
import { responseHeaders, trailers } from './forward-headers.ts';

import type { KeptConnection, ResponseReceiver } from './kept-connections.ts';
import type { RequestThread } from './request-thread.ts';
import { type AnswerHead, sendInformational } from './send-informational.ts';

/** node:http accepts these, but they must not be passed on: RFC 9110 5.5 allows none of them in a value. */
const CONTROL = /[^\t\x20-\x7e\x80-\xff]/;
const NOT_IN_TARGET = /[^\x21-\x7e\x80-\xff]/;

/** A body up to this size is sent as text: node:http appends text to the head and writes both at once. */
const AS_TEXT = 4096;

/** Called before any of the response has reached the client. `wasKept`: the connection had served other requests. */
export interface AskEvents {
  connected(wasKept: boolean): void;
  failed(cause: Error, wasKept: boolean): void;
}

/** The whole request as text, one character per byte; undefined if it has a byte that must not be passed on. */
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
  thread: RequestThread,
  exchange: Exchange,
  request: BackendRequest,
  text: string,
  events: AskEvents,
): void {
  const kept = thread.kept.take(request.backend.slot);
  if (kept !== undefined) return ask(thread, exchange, kept, text, events);
  dialAddresses(request, (error, socket) => {
    if (exchange.isOver) socket?.destroy();
    else if (socket === undefined) events.failed(error ?? new Error('No connection'), false);
    else ask(thread, exchange, thread.kept.add(request.backend.slot, socket), text, events);
  });
}

function ask(
  thread: RequestThread,
  exchange: Exchange,
  connection: KeptConnection,
  text: string,
  events: AskEvents,
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
        // The head has a byte that node:http refuses to write.
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
      else events.failed(cause, wasKept);
    },
    onFault: error => exchange.connection.onFault(error),
  };
  exchange.kept = connection;
  events.connected(wasKept);
  connection.ask(request.method ?? 'GET', text, receiver);
}

function answerHead({ status, reason, headers }: ResponseHead): AnswerHead {
  return { statusCode: status, statusMessage: reason, rawHeaders: headers };
}

function hasChunks({ headers }: ResponseHead): boolean {
  return headers.some((text, at) => at % 2 === 0 && text.toLowerCase() === 'transfer-encoding');
}
