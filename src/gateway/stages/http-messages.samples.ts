// For tests: reads HTTP/1 messages as a plain client or server would, without our own parsers.

import assert from 'node:assert/strict';

export interface Message {
  readonly line: string;
  /** By name in lower case. */
  readonly fields: ReadonlyMap<string, string>;
  /** As much of it as has come, without chunks. */
  readonly body: Buffer;
  readonly isWhole: boolean;
  /** Its body has no other end than that of the connection. */
  readonly isUntilClose: boolean;
  readonly end: number;
}

/** undefined if the head is not whole. `without` says what a body without a length is, for that status. */
export function readMessage(
  bytes: Buffer,
  from: number,
  without: (status: number) => 'none' | 'close',
): Message | undefined {
  const to = bytes.indexOf('\r\n\r\n', from);
  if (to < 0) return undefined;
  const [line, ...lines] = bytes.toString('latin1', from, to).split('\r\n');
  const fields = new Map(
    lines.map(field => {
      const colon = field.indexOf(':');
      return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()] as const;
    }),
  );
  const at = to + 4;
  const status = Number(line.split(' ')[1]);
  const length = fields.get('content-length');
  const isResponse = line.startsWith('HTTP/');
  const hasNone = isResponse && without(status) === 'none';
  if (hasNone) return { line, fields, body: Buffer.alloc(0), isWhole: true, isUntilClose: false, end: at };
  if (fields.has('transfer-encoding')) return { line, fields, isUntilClose: false, ...readChunks(bytes, at) };
  if (length !== undefined) {
    const end = Math.min(at + Number(length), bytes.length);
    const isWhole = at + Number(length) <= bytes.length;
    return { line, fields, body: bytes.subarray(at, end), isWhole, isUntilClose: false, end };
  }
  if (!isResponse)
    return { line, fields, body: Buffer.alloc(0), isWhole: true, isUntilClose: false, end: at };
  return { line, fields, body: bytes.subarray(at), isWhole: true, isUntilClose: true, end: bytes.length };
}

function readChunks(bytes: Buffer, from: number): Pick<Message, 'body' | 'isWhole' | 'end'> {
  const parts: Buffer[] = [];
  for (let at = from; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return { body: Buffer.concat(parts), isWhole: false, end: bytes.length };
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    assert.ok(size >= 0, `the size of a chunk: ${bytes.toString('latin1', at, lineEnd).slice(0, 50)}`);
    const next = lineEnd + 2 + size + 2;
    if (next > bytes.length) {
      parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
      return { body: Buffer.concat(parts), isWhole: false, end: bytes.length };
    }
    if (size === 0) return { body: Buffer.concat(parts), isWhole: true, end: next };
    parts.push(bytes.subarray(lineEnd + 2, next - 2));
    at = next;
  }
}
