// One connection's requests for http-sequences.test.ts: of every kind, in any order, as the bytes that a
// client sends, split anywhere, and the expected responses. The model walks over the steps: each is answered in
// order until one ends the connection; nothing after that one is answered or reaches a backend.

import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { request } from './http-given.ts';

/**
 * served: the backend's response. last: the same, then FIN. early: the same, perhaps with FIN, because the backend
 * responds before the request is complete. refused: our own status, then FIN. switch: 101, then an echo of all bytes;
 * or, if a response is still in progress, as last. gone: only FIN.
 */
type Outcome = 'served' | 'last' | 'early' | 'switch' | 'gone' | number;

interface Kind {
  readonly outcome: Outcome;
  /** The outcome as the first step of a connection, if it differs. */
  readonly atFirst?: Outcome;
  readonly method?: string;
  /** `path` is unique to this step. */
  bytes(path: string): string;
}

const HOST = 'Host: lab.test';
const get = (...lines: readonly string[]) => ({
  bytes: (path: string) => request(`GET ${path} HTTP/1.1`, ...lines),
});
const post = (line: string, body: string) => ({
  method: 'POST',
  bytes: (path: string) => `${request(`POST ${path} HTTP/1.1`, HOST, line)}${body}`,
});
const CHUNKED = 'Transfer-Encoding: chunked';

const kinds = {
  get: { outcome: 'served', ...get(HOST) },
  head: { outcome: 'served', method: 'HEAD', bytes: path => request(`HEAD ${path} HTTP/1.1`, HOST) },
  slow: { outcome: 'served', bytes: path => request(`GET /slow?${path} HTTP/1.1`, HOST) },
  large: { outcome: 'served', bytes: path => request(`GET /large?${path} HTTP/1.1`, HOST) },
  'absolute target': {
    outcome: 'served',
    bytes: path => request(`GET http://lab.test${path} HTTP/1.1`, HOST),
  },
  'HTTP/1.0, kept': {
    outcome: 'served',
    bytes: path => request(`GET ${path} HTTP/1.0`, HOST, 'Connection: keep-alive'),
  },
  body: { outcome: 'served', ...post('Content-Length: 9', 'GET / HTT') },
  'no body': { outcome: 'served', ...post('Content-Length: 0', '') },
  chunks: { outcome: 'served', ...post(CHUNKED, '3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nX-Behind: 1\r\n\r\n') },
  'no chunks': { outcome: 'served', ...post(CHUNKED, '0\r\n\r\n') },
  // node:http closes after each of these.
  expectation: {
    outcome: 'early',
    method: 'POST',
    bytes: path =>
      `${request(`POST ${path} HTTP/1.1`, HOST, 'Expect: 100-continue', 'Content-Length: 4')}body`,
  },
  'answered early': {
    outcome: 'early',
    method: 'POST',
    bytes: path => `${request(`POST /early?${path} HTTP/1.1`, HOST, 'Content-Length: 40')}${'x'.repeat(40)}`,
  },

  close: { outcome: 'last', ...get(HOST, 'Connection: close') },
  'HTTP/1.0': { outcome: 'last', bytes: path => request(`GET ${path} HTTP/1.0`, HOST) },
  'upgrade to h2c': { outcome: 'last', ...get(HOST, 'Connection: Upgrade', 'Upgrade: h2c') },
  'upgrade with a body': {
    outcome: 'last',
    method: 'POST',
    bytes: path =>
      `${request(`POST ${path} HTTP/1.1`, HOST, 'Connection: Upgrade', 'Upgrade: echo', 'Content-Length: 4')}body`,
  },
  upgrade: { outcome: 'switch', ...get(HOST, 'Connection: Upgrade', 'Upgrade: echo') },

  'unknown host': { outcome: 421, ...get('Host: nobody.test') },
  'unknown host, with a body': {
    outcome: 421,
    method: 'POST',
    bytes: path => `${request(`POST ${path} HTTP/1.1`, 'Host: nobody.test', 'Content-Length: 4')}body`,
  },
  'upgrade to an unknown host': {
    outcome: 421,
    ...get('Host: nobody.test', 'Connection: Upgrade', 'Upgrade: echo'),
  },
  'not allowed': { outcome: 403, ...get('Host: closed.test') },
  'no host': { outcome: 400, ...get() },
  'two hosts': { outcome: 400, ...get(HOST, HOST) },
  'two lengths': { outcome: 400, ...post(`Content-Length: 3\r\n${CHUNKED}`, '0\r\n\r\n') },
  'bare line feeds': { outcome: 400, bytes: path => `GET ${path} HTTP/1.1\n${HOST}\n\n` },
  'a broken chunk': { outcome: 400, ...post(CHUNKED, '3\r\nabc\r\nzz\r\n') },
  // Handled by the worker, and only for agents.
  CONNECT: { outcome: 400, atFirst: 403, bytes: () => request('CONNECT lab:443 HTTP/1.1', 'Host: lab:443') },
  'half a head': { outcome: 'gone', bytes: path => `GET ${path} HTTP/1.1\r\nHost: la` },
} satisfies Record<string, Kind>;

type KindName = keyof typeof kinds;
const kindOf = (name: KindName): Kind => kinds[name];

/** What a client sends on one connection. */
export interface Sequence {
  readonly kinds: readonly KindName[];
  /** Where its bytes are split, in thousandths. */
  readonly cuts: readonly number[];
  /** Milliseconds to wait before each piece. */
  readonly pauses: readonly number[];
}

const common: readonly KindName[] = [
  'get',
  'head',
  'body',
  'chunks',
  'slow',
  'large',
  'upgrade',
  'unknown host',
];

export const anySequence: fc.Arbitrary<Sequence> = fc.record({
  kinds: fc.array(
    fc.oneof(
      { weight: 2, arbitrary: fc.constantFrom(...common) },
      { weight: 3, arbitrary: fc.constantFrom(...(Object.keys(kinds) as KindName[])) },
    ),
    { minLength: 1, maxLength: 7 },
  ),
  cuts: fc.array(fc.integer({ min: 0, max: 1000 }), { maxLength: 6 }),
  pauses: fc.array(fc.constantFrom(0, 0, 1, 3), { minLength: 1, maxLength: 3 }),
});

/** `number` is unique to the sequence and makes its paths unique. */
export function bytesOf({ kinds: names }: Sequence, number: number): string {
  return names.map((name, index) => kindOf(name).bytes(pathOf(number, index))).join('');
}

export function piecesOf({ cuts }: Sequence, bytes: string): string[] {
  const places = cuts.map(cut => Math.floor((cut / 1000) * bytes.length)).toSorted((a, b) => a - b);
  return [0, ...places].map((from, index) => bytes.slice(from, places[index])).filter(piece => piece !== '');
}

function pathOf(number: number, index: number): string {
  return `/${number}/${index}`;
}

/** The outcome of a sequence. */
export interface Came {
  /** Status of each request, except a CONNECT, which the worker answers. */
  readonly statuses: readonly number[];
  /** Paths that a backend answered, and one that it may have begun to read. */
  readonly served: readonly string[];
  readonly begun: string | undefined;
}

/**
 * Checks everything that a client received until FIN. Throws an AssertionError if a response does not match its
 * request, if one is missing or one too many, or if anything follows the last.
 */
export function judge(sequence: Sequence, number: number, heard: Buffer): Came {
  const statuses: number[] = [];
  const served: string[] = [];
  let begun: string | undefined;
  let at = 0;
  const next = (index: number): { status: number; body: string } => {
    const { method = 'GET' } = kindOf(sequence.kinds[index]);
    const found = readAnswer(heard, at, method);
    assert.ok(found !== undefined, `no answer to ${describe(sequence, index)}: ${shorten(heard, at)}`);
    at = found.end;
    return found;
  };
  const atEnd = (): boolean => at === heard.length;

  for (const [index, name] of sequence.kinds.entries()) {
    const kind = kindOf(name);
    const outcome = index === 0 ? (kind.atFirst ?? kind.outcome) : kind.outcome;
    if (outcome === 'gone' && sequence.kinds.slice(index).every(behind => behind === name)) break;
    const { status, body } = next(index);
    const path = pathOf(number, index);
    if (outcome !== kind.atFirst) statuses.push(status);
    // The bytes after half a head complete it, with an invalid host.
    const refusal = outcome === 'gone' ? 400 : outcome;
    if (typeof refusal === 'number') {
      assert.equal(status, refusal, describe(sequence, index));
      if (name === 'a broken chunk') begun = path;
      break;
    }
    served.push(path);
    if (outcome === 'switch' && status === 101) {
      const behind = bytesOf({ ...sequence, kinds: sequence.kinds.slice(0, index + 1) }, number).length;
      assert.equal(
        heard.toString('latin1', at),
        bytesOf(sequence, number).slice(behind),
        'what was switched',
      );
      at = heard.length;
      break;
    }
    assert.equal(status, 200, describe(sequence, index));
    if (kind.method !== 'HEAD') assert.ok(body.includes(path), `${describe(sequence, index)}: ${body}`);
    if (outcome === 'last' || outcome === 'switch' || (outcome === 'early' && atEnd())) break;
  }
  assert.ok(atEnd(), `behind the last answer: ${shorten(heard, at)}`);
  return { statuses, served, begun };
}

function describe({ kinds: names }: Sequence, index: number): string {
  return `${names[index]} (number ${index})`;
}

function shorten(heard: Buffer, at: number): string {
  return JSON.stringify(heard.toString('latin1', at, at + 300));
}

/** The next response that is 101 or not 1xx. */
function readAnswer(
  heard: Buffer,
  from: number,
  method: string,
): { readonly status: number; readonly body: string; readonly end: number } | undefined {
  const blank = heard.indexOf('\r\n\r\n', from);
  if (blank < 0) return undefined;
  const head = heard.toString('latin1', from, blank + 2);
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
  const start = blank + 4;
  if (status === 100) return readAnswer(heard, start, method);
  if (status === 101 || method === 'HEAD') return { status, body: '', end: start };
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  if (length !== undefined) {
    const end = start + Number(length);
    return end > heard.length ? undefined : { status, body: heard.toString('latin1', start, end), end };
  }
  const end = heard.indexOf('\r\n0\r\n\r\n', start);
  return end < 0 ? undefined : { status, body: heard.toString('latin1', start, end), end: end + 7 };
}
