// A client's bytes on an HTTP/1 connection, followed from request to request: where each head and each body ends, by the
// same strict rules for the first and for all later ones. node:http reads the same bytes, and is lenient here and there;
// what it reads counts where it is also read here.

import { type ChunkedBody, readChunkedBody, startChunkedBody } from './chunked-body.ts';
import { endOfHead } from './http-head.ts';
import { latin1 } from './latin1.ts';

export interface RequestStream {
  stage: 'head' | 'length' | 'chunks' | 'over';
  /** Whole heads that nobody has taken yet: see `takeHead`. */
  heads: number;
  /** What cannot be read on: a request that nobody has taken, or the body of the last one that was. */
  fault: 'request' | 'body' | undefined;
  /** Of a head, or of the empty line in front of it, that is not whole. */
  held: Buffer | undefined;
  /** RFC 9112 2.2: one empty line may come behind a request. */
  mayBreak: boolean;
  /** Of a body whose length is known. */
  left: number;
  chunks: ChunkedBody | undefined;
}

const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;

/** In a head whose lines are judged, so that nothing but a field can look like one. */
const FRAMING = /\r\n(?:(content-length)|transfer-encoding):[\t ]*([^\r]*)/gi;
/** RFC 9112 6.3. More digits are not exact any more. */
const LENGTH = /^\d{1,15}[\t ]*$/;
const CHUNKED = /^chunked[\t ]*$/i;

export function startRequestStream(): RequestStream {
  return {
    stage: 'head',
    heads: 0,
    fault: undefined,
    held: undefined,
    mayBreak: false,
    left: 0,
    chunks: undefined,
  };
}

/** What follows is no HTTP, or nobody's. */
export function stopFollowing(stream: RequestStream): void {
  stream.stage = 'over';
  stream.held = undefined;
  stream.chunks = undefined;
}

/** A request has begun and is not whole. */
export function isInsideRequest({ stage, held }: RequestStream): boolean {
  return stage === 'length' || stage === 'chunks' || held !== undefined;
}

/** Whether a request that another parser has read is one here too. */
export function takeHead(stream: RequestStream): boolean {
  if (stream.heads === 0) return false;
  stream.heads--;
  return true;
}

/** Takes what has arrived. Nothing behind a fault is looked at. */
export function followRequests(stream: RequestStream, arrived: Buffer): void {
  const { held } = stream;
  const bytes = held === undefined ? arrived : Buffer.concat([held, arrived]);
  stream.held = undefined;
  let at = 0;
  while (at < bytes.length) {
    if (stream.stage === 'head') at = followHead(stream, bytes, at);
    else if (stream.stage === 'length') at = followLength(stream, bytes, at);
    else if (stream.chunks !== undefined) at = followChunks(stream, stream.chunks, bytes, at);
    else return;
  }
}

/** Each of these answers where to go on. */
function followHead(stream: RequestStream, bytes: Buffer, from: number): number {
  if (stream.mayBreak && bytes[from] === CARRIAGE_RETURN && bytes[from + 1] === LINE_FEED) {
    stream.mayBreak = false;
    return from + 2;
  }
  const head = endOfHead(bytes, from, bytes.length);
  if (head.kind === 'incomplete') {
    // A copy: what a socket reads into is much larger.
    stream.held = Buffer.from(bytes.subarray(from));
    return bytes.length;
  }
  if (head.kind === 'reject' || !frame(stream, latin1(bytes, from, head.value))) {
    return breakOff(stream, 'head', bytes);
  }
  stream.heads++;
  return head.value;
}

/** RFC 9112 6: one framing, said once. False when it can be read in two ways. */
function frame(stream: RequestStream, head: string): boolean {
  stream.stage = 'head';
  stream.mayBreak = true;
  let isFramed = false;
  for (const [, isLength, value] of head.matchAll(FRAMING)) {
    if (isFramed) return false;
    isFramed = true;
    if (isLength === undefined) {
      if (!CHUNKED.test(value)) return false;
      stream.stage = 'chunks';
      stream.chunks = startChunkedBody();
    } else {
      if (!LENGTH.test(value)) return false;
      stream.left = Number(value);
      if (stream.left > 0) stream.stage = 'length';
    }
  }
  return true;
}

function followLength(stream: RequestStream, bytes: Buffer, from: number): number {
  const to = Math.min(bytes.length, from + stream.left);
  stream.left -= to - from;
  if (stream.left === 0) stream.stage = 'head';
  return to;
}

function followChunks(stream: RequestStream, body: ChunkedBody, bytes: Buffer, from: number): number {
  const part = readChunkedBody(body, bytes, from, bytes.length);
  switch (part.kind) {
    case 'incomplete':
      return bytes.length;
    case 'data':
      return part.to;
    case 'end':
      stream.stage = 'head';
      stream.chunks = undefined;
      return part.end;
    default:
      return breakOff(stream, 'body', bytes);
  }
}

/** A head that nobody has taken goes with its body. */
function breakOff(stream: RequestStream, where: 'head' | 'body', bytes: Buffer): number {
  stream.fault = where === 'head' || takeHead(stream) ? 'request' : 'body';
  stopFollowing(stream);
  return bytes.length;
}
