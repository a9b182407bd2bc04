// Writes the heads of 1xx responses directly, past node:http.

import type { Exchange } from './exchange.ts';
import { responseHeaders } from './forward-headers.ts';

export interface AnswerHead {
  readonly statusCode?: number | undefined;
  readonly statusMessage?: string | undefined;
  readonly rawHeaders: readonly string[];
}

/** RFC 9110 15.2: 1xx responses pass, except to HTTP/1.0, which has none, and to a client that does not read. */
export function sendInformational({ isOver, connection, request }: Exchange, answer: AnswerHead): void {
  const { socket } = connection;
  if (isOver || request.httpVersion === '1.0' || socket.writableNeedDrain) return;
  socket.write(
    headText(
      answer,
      responseHeaders(answer.rawHeaders, { status: answer.statusCode, upgrade: false, isChunked: false }),
    ),
    'latin1',
  );
}

export function headText({ statusCode, statusMessage }: AnswerHead, headers: readonly string[]): string {
  let text = `HTTP/1.1 ${statusCode} ${statusMessage}\r\n`;
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${text}\r\n`;
}
