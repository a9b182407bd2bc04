// The contract of every codec that returns `Parsed`, run against all of them: the result must depend only on the bytes
// in [from, to), not on how they were split, where they are, or what surrounds them.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import * as fc from 'fast-check';
import { parseClientHello } from './client-hello.ts';
import { buildDnsQuery } from './dns-message.ts';
import { parseDnsQuery } from './dns-query.ts';
import { alpnExtension, ascii, helloMessage, helloSamples, inRecords, messageOf } from './hello.samples.ts';
import { parseHttpHead } from './http-head.ts';
import { fieldTexts } from './http-heads.samples.ts';
import { parseRequestHead, type RequestHead } from './http-request.ts';
import { parseResponseHead, type ResponseHead } from './http-response.ts';
import { parseIp } from './ip-address.ts';
import { latin1 } from './latin1.ts';
import { found, type Parsed } from './parsed.ts';
import { buildProxyV1, buildProxyV2, parseProxyHeader } from './proxy-protocol.ts';

interface Codec {
  readonly name: string;
  readonly parse: (bytes: Uint8Array, from: number, to: number) => Parsed<{ readonly end: number }>;
  /** Each parses as found, and ends with its last byte. */
  readonly samples: readonly Uint8Array[];
}

const ipv4 = (text: string, port: number) => ({ address: parseIp(text)!.subarray(12), port });
const ipv6 = (text: string, port: number) => ({ address: parseIp(text)!, port });
const tlvs = [
  { type: 0x20, value: ascii('0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11') },
  { type: 0x04, value: new Uint8Array(0) },
  { type: 0x20, value: ascii('again') },
];

/** Heads are positions, which depend on where the bytes are: compare what is there. */
function asText<T extends RequestHead | ResponseHead>(
  parse: (bytes: Uint8Array, from: number, to: number) => Parsed<T>,
  first: (head: T) => string,
): Codec['parse'] {
  return (bytes, from, to) => {
    const head = parse(bytes, from, to);
    if (head.kind !== 'found') return head;
    const { end, fields } = head.value;
    const kinds = fields.kind.slice(0, fields.count);
    return found({ first: first(head.value), fields: fieldTexts(head.value), kinds, end });
  };
}

const codecs: readonly Codec[] = [
  {
    name: 'parseClientHello()',
    parse: parseClientHello,
    samples: [
      ...helloSamples.map(sample => sample.bytes),
      ...helloSamples.slice(-2).map(sample => inRecords(messageOf(sample.bytes), [1, 2, 3, 70, 300, 1])),
      inRecords(helloMessage()),
      inRecords(
        helloMessage({ extensions: [alpnExtension('h2')] }),
        Array.from({ length: 200 }, () => 1),
      ),
    ],
  },
  {
    name: 'parseProxyHeader()',
    parse: parseProxyHeader,
    samples: [
      buildProxyV1(undefined, undefined),
      buildProxyV1(ipv4('192.0.2.1', 1), ipv4('198.51.100.255', 65_535)),
      buildProxyV1(ipv6('2001:db8::1', 40_000), ipv6('::1', 443)),
      ascii('PROXY UNKNOWN what ever \x00\xff\r\n'),
      buildProxyV2({}),
      buildProxyV2({ tlvs }),
      buildProxyV2({
        source: ipv4('192.0.2.1', 1),
        destination: ipv4('198.51.100.2', 2),
        tlvs,
        crc32c: true,
      }),
      buildProxyV2({ source: ipv6('2001:db8::1', 1), destination: ipv6('::1', 2), tlvs }),
    ].map(bytes => Uint8Array.from(bytes)),
  },
  {
    name: 'parseHttpHead()',
    parse: parseHttpHead,
    samples: [
      ascii('CONNECT kube:6443 HTTP/1.1\r\n\r\n'),
      ascii('GET / HTTP/1.0\r\nHost: a.example\r\nAccept:\t*/* \r\nx-empty:\r\n\r\n'),
      ascii('CONNECT any HTTP/1.1\r\nX-Gardener-Destination: outbound|443||kube-apiserver.x.svc\r\n\r\n'),
    ],
  },
  {
    name: 'parseRequestHead()',
    parse: asText(
      parseRequestHead,
      ({ bytes, from, methodTo, targetFrom, targetTo, isHttp10 }) =>
        `${latin1(bytes, from, methodTo)} ${latin1(bytes, targetFrom, targetTo)} ${isHttp10}`,
    ),
    samples: [
      ascii('GET / HTTP/1.0\r\n\r\n'),
      ascii('POST /a?b HTTP/1.1\r\nHost: a.example\r\nContent-Length:5 \r\nx_empty:\r\n\r\n'),
      ascii(`OPTIONS * HTTP/1.1\r\n${'X-Forwarded-Some: a\r\nConnection: close, x\r\n'.repeat(40)}\r\n`),
    ],
  },
  {
    name: 'parseDnsQuery()',
    parse: parseDnsQuery,
    samples: [
      buildDnsQuery({ id: 0x1234, name: 'x.apps.example.com', type: 28 }),
      // Without EDNS.
      Uint8Array.from([0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0x61, 0, 0, 1, 0, 1]),
      // A record with a compressed name before OPT, which has an option.
      Buffer.from(
        `000101000001000000000002 0161 00 00010001 c00c00fa00ff000000000001aa 00002904d00000800000050003000161`.replaceAll(
          ' ',
          '',
        ),
        'hex',
      ),
    ],
  },
  {
    name: 'parseResponseHead()',
    parse: asText(parseResponseHead, ({ status, isHttp10 }) => `${status} ${isHttp10}`),
    samples: [
      ascii('HTTP/1.0 200\r\n\r\n'),
      ascii('HTTP/1.1 404 Not Found\r\nDate:\t now \r\nSet-Cookie: a=b\r\nx-empty:\r\n\r\n'),
      ascii('HTTP/1.1 200 Connection established\r\n\r\n'),
    ],
  },
];

/** Parses the same bytes between others; `end` in the result counts from the start of the bytes. */
function parseWithin(
  codec: Codec,
  bytes: Uint8Array,
  before: Uint8Array,
  after: Uint8Array,
): Parsed<unknown> {
  // A view that does not start where its memory starts, like pooled buffers.
  const buffer = Uint8Array.from([...after, ...before, ...bytes, ...after]).subarray(after.length);
  const answer = codec.parse(buffer, before.length, before.length + bytes.length);
  if (answer.kind !== 'found') return answer;
  return { kind: 'found', value: { ...answer.value, end: answer.value.end - before.length } };
}

const none = new Uint8Array(0);
const surroundings = fc.uint8Array({ maxLength: 40 });

for (const codec of codecs) {
  const sample = fc.constantFrom(...codec.samples);
  /** A sample with a few bytes changed, removed or inserted, so that it fails deep inside. */
  const mutated = fc
    .tuple(
      sample,
      fc.array(fc.tuple(fc.nat(), fc.nat(2), fc.integer({ min: 0, max: 255 })), {
        minLength: 1,
        maxLength: 4,
      }),
    )
    .map(([bytes, edits]) => {
      const result = [...bytes];
      for (const [where, dropped, byte] of edits) result.splice(where % bytes.length, dropped, byte);
      return Uint8Array.from(result);
    });

  suite(codec.name, () => {
    test(`${codec.name} finds every sample up to its last byte`, () => {
      for (const bytes of codec.samples) {
        const answer = codec.parse(bytes, 0, bytes.length);
        assert.ok(answer.kind === 'found', JSON.stringify(answer));
        assert.equal(answer.value.end, bytes.length);
      }
    });

    test(`${codec.name} asks for more on every proper prefix, whatever follows it`, () => {
      for (const bytes of codec.samples) {
        const buffer = new Uint8Array(bytes.length);
        for (let to = 0; to < bytes.length; to++) {
          assert.equal(codec.parse(bytes, 0, to).kind, 'incomplete', `${to} of ${bytes.length} bytes`);
          assert.equal(
            codec.parse(buffer, 0, to).kind,
            'incomplete',
            `${to} of ${bytes.length} bytes, then zeros`,
          );
          buffer[to] = bytes[to];
        }
      }
    });

    test(`${codec.name} returns the same wherever the bytes are and whatever surrounds them`, () => {
      fc.assert(
        fc.property(fc.oneof(sample, mutated), surroundings, surroundings, (bytes, before, after) => {
          assert.deepEqual(parseWithin(codec, bytes, before, after), parseWithin(codec, bytes, none, none));
        }),
        { numRuns: 500 },
      );
    });

    test(`${codec.name} keeps its decision when more bytes follow`, () => {
      fc.assert(
        fc.property(fc.oneof(sample, mutated), surroundings, (bytes, after) => {
          const buffer = Uint8Array.from([...bytes, ...after]);
          let decided: Parsed<unknown> | undefined;
          for (let to = 0; to <= buffer.length; to++) {
            const answer = codec.parse(buffer, 0, to);
            if (decided?.kind === 'found') assert.deepEqual(answer, decided);
            if (decided?.kind === 'reject') assert.equal(answer.kind, 'reject');
            if (answer.kind !== 'incomplete') decided ??= answer;
          }
        }),
        { numRuns: 100 },
      );
    });

    test(`${codec.name} never throws and returns no more than it was given`, () => {
      fc.assert(
        fc.property(fc.oneof(mutated, fc.uint8Array({ maxLength: 300 })), bytes => {
          const answer = codec.parse(bytes, 0, bytes.length);
          if (answer.kind === 'reject') assert.match(answer.reason, /^[a-z0-9]+(-[a-z0-9]+)*$/);
          if (answer.kind !== 'found') return;
          assert.ok(answer.value.end <= bytes.length);
          assert.ok(size(answer.value) <= bytes.length);
        }),
        { numRuns: 3000 },
      );
    });
  });
}

/** The number of characters and bytes taken from the input (without `version`, `command` and `family`). */
function size(value: unknown): number {
  if (typeof value === 'string' || value instanceof Uint8Array) return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value)
    .filter(([key]) => key !== 'version' && key !== 'command' && key !== 'family')
    .reduce((sum, [, part]) => sum + size(part), 0);
}
