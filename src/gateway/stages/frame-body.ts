// Frames a body anew while it passes: chunks are read strictly and written without extensions, or without framing for
// HTTP/1.0; trailers are filtered. A body with a length passes as it is. Pure.

import { readChunkedBody } from '../../wire/chunked-body.ts';
import { copyBytes } from './copy-bytes.ts';
import type { Body } from './exchange-state.ts';
import { trailers } from './forward-headers.ts';

/** Most bytes of a chunked body to frame at a time. */
export const CHUNKED_READ = 64 * 1024;
/** Room for them in frames: each part of a chunk gets its own, at most a few bytes longer; and for trailers. */
export const FRAME_ROOM = 2 * CHUNKED_READ;

export interface Framed {
  /** Bytes written to `out`. */
  readonly length: number;
  /** Where reading stopped: at the end of the body, or of what there was. */
  readonly at: number;
  readonly isWhole: boolean;
  /** The chunks are malformed. */
  readonly isBroken: boolean;
}

/** Writes the chunks in [from, to) to `out`, starting at `into`; as chunks if `isChunked`. */
export function frameChunks(
  body: Body,
  bytes: Uint8Array,
  from: number,
  to: number,
  out: Buffer,
  into: number,
  isChunked: boolean,
): Framed {
  const { chunks } = body;
  let at = from;
  let length = into;
  if (chunks === undefined) return { length, at, isWhole: true, isBroken: true };
  for (;;) {
    const part = readChunkedBody(chunks, bytes, at, to);
    switch (part.kind) {
      case 'incomplete':
        return { length, at: to, isWhole: false, isBroken: false };
      case 'reject':
        return { length, at, isWhole: false, isBroken: true };
      case 'end':
        if (isChunked) length += out.write(lastChunk(part.trailers), length, 'latin1');
        return { length, at: part.end, isWhole: true, isBroken: false };
      default:
        length = isChunked
          ? writeChunk(bytes, part.from, part.to, out, length)
          : copyBytes(bytes, part.from, part.to, out, length);
        at = part.to;
    }
  }
}

/** Writes the bytes as one chunk. Returns the new length of `out`. */
export function writeChunk(bytes: Uint8Array, from: number, to: number, out: Buffer, into: number): number {
  if (from === to) return into;
  let at = into + out.write(`${(to - from).toString(16)}\r\n`, into, 'latin1');
  at = copyBytes(bytes, from, to, out, at);
  return at + out.write('\r\n', at, 'latin1');
}

export function lastChunk(raw: readonly string[]): string {
  let text = '0\r\n';
  for (const [name, value] of trailers(raw)) text += `${name}: ${value}\r\n`;
  return `${text}\r\n`;
}
