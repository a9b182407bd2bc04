import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { buildDnsQuery, type DnsMessage, parseDnsMessage, rcodeName } from '../wire/dns-message.ts';
import { encodeDnsName } from '../wire/dns-name.ts';
import { answersFrom } from './answer-query.ts';
import type { ServedZones } from './served-zones.ts';

const A = 1;
const NS = 2;
const SOA = 6;
const HINFO = 13;
const TXT = 16;
const AAAA = 28;
const ANY = 255;
const GATEWAY = ['203.0.113.10', '2001:db8::10'];
const MANY = Array.from({ length: 60 }, (_, i) => `203.0.113.${i + 1}`);
const name = (text: string, addresses: readonly string[] = GATEWAY) => ({ name: text, addresses });

const ZONES: ServedZones = {
  ttl: 60,
  serial: 7,
  isPartial: false,
  zones: [
    {
      name: 'hub.lab',
      nameServers: ['ns.hub.lab', 'ns.example.org'],
      names: [
        name('api.hub.lab'),
        name('*.apps.hub.lab'),
        name('a.b.apps.hub.lab'),
        name('exact.apps.hub.lab', ['192.0.2.1']),
        name('many.hub.lab', MANY),
        name('ns.hub.lab'),
      ],
    },
    { name: 'lab.test', nameServers: ['ns.lab.test'], names: [name('lab.test')] },
  ],
};
const answer = answersFrom(ZONES);
const scratch = Buffer.alloc(65_535);

function askBytes(query: Uint8Array, isTcp = false): Buffer | undefined {
  const { length } = answer(Buffer.from(query), 0, query.length, isTcp, scratch);
  return length === 0 ? undefined : Buffer.from(scratch.subarray(0, length));
}

function ask(query: Uint8Array, isTcp = false): DnsMessage {
  const bytes = askBytes(query, isTcp) ?? Buffer.alloc(0);
  const parsed = parseDnsMessage(bytes, 0, bytes.length);
  assert.ok(parsed.kind === 'found', `no answer that can be read: ${bytes.toString('hex')}`);
  assert.equal(parsed.value.end, bytes.length);
  return parsed.value;
}

/** `NOERROR 203.0.113.10`, with the types of what is in authority behind a slash. */
function answerTo(host: string, type: number): string {
  const { rcode, answers, authority } = ask(buildDnsQuery({ id: 1, name: host, type }));
  const data = answers.map(record => record.data ?? `type ${record.type}`);
  const soa = authority.map(record => `/ ${record.name} ${record.type}`);
  return [rcodeName(rcode), ...data, ...soa].join(' ');
}

const NODATA = 'NOERROR / hub.lab 6';
const NO_NAME = 'NXDOMAIN / hub.lab 6';

test('names that exist are answered by type, and others of the zone not', () => {
  assert.equal(answerTo('api.hub.lab', A), 'NOERROR 203.0.113.10');
  assert.equal(answerTo('api.hub.lab', AAAA), 'NOERROR 2001:db8::10');
  assert.equal(answerTo('api.hub.lab', TXT), NODATA);
  assert.equal(answerTo('exact.apps.hub.lab', AAAA), NODATA);
  assert.equal(answerTo('other.hub.lab', A), NO_NAME);
  assert.equal(answerTo('below.api.hub.lab', A), NO_NAME);
  assert.equal(answerTo('lab.test', A), 'NOERROR 203.0.113.10');
});

test('a zone has SOA and NS, and names of no zone are refused', () => {
  assert.equal(answerTo('hub.lab', SOA), 'NOERROR type 6');
  assert.equal(answerTo('hub.lab', NS), 'NOERROR ns.hub.lab ns.example.org');
  assert.equal(answerTo('hub.lab', A), NODATA);
  assert.equal(answerTo('ns.hub.lab', A), 'NOERROR 203.0.113.10');
  for (const host of ['lab', '', 'example.org', 'hub.lab.org', 'xhub.lab'])
    assert.equal(answerTo(host, A), 'REFUSED', host);
});

test('a wildcard answers as RFC 4592 says: not for names that exist, nor below them', () => {
  assert.equal(answerTo('x.apps.hub.lab', A), 'NOERROR 203.0.113.10');
  assert.equal(answerTo('x.y.apps.hub.lab', AAAA), 'NOERROR 2001:db8::10');
  assert.equal(answerTo('x.apps.hub.lab', TXT), NODATA);
  assert.equal(answerTo('*.apps.hub.lab', A), 'NOERROR 203.0.113.10');
  // An exact name.
  assert.equal(answerTo('exact.apps.hub.lab', A), 'NOERROR 192.0.2.1');
  assert.equal(answerTo('x.exact.apps.hub.lab', A), NO_NAME);
  // An empty non-terminal.
  assert.equal(answerTo('b.apps.hub.lab', A), NODATA);
  assert.equal(answerTo('x.b.apps.hub.lab', A), NO_NAME);
  assert.equal(answerTo('apps.hub.lab', A), NODATA);
  // Below the wildcard itself (RFC 4592 2.2.1).
  assert.equal(answerTo('x.*.apps.hub.lab', A), NO_NAME);
});

test('while more names may come, what is not there is a SERVFAIL, which nobody remembers for long', () => {
  const partial = answersFrom({ ...ZONES, isPartial: true });
  const rcode = (host: string, type: number) => {
    const query = Buffer.from(buildDnsQuery({ id: 1, name: host, type }));
    return rcodeName(partial(query, 0, query.length, false, scratch).rcode);
  };
  assert.deepEqual(
    ['api.hub.lab', 'x.apps.hub.lab', 'nope.hub.lab', 'example.org'].map(host => rcode(host, A)),
    ['NOERROR', 'NOERROR', 'SERVFAIL', 'SERVFAIL'],
  );
  assert.equal(rcode('api.hub.lab', TXT), 'NOERROR');
});

test('ANY is answered by one small record (RFC 8482)', () => {
  const { answers } = ask(buildDnsQuery({ id: 1, name: 'many.hub.lab', type: ANY }));
  assert.deepEqual(
    answers.map(({ type, ttl }) => [type, ttl]),
    [[HINFO, 60]],
  );
  assert.equal(answerTo('apps.hub.lab', ANY), 'NOERROR type 13');
  assert.equal(answerTo('nope.hub.lab', ANY), NO_NAME);
});

test('the question comes back in its own case', () => {
  const { questions, answers, id } = ask(buildDnsQuery({ id: 999, name: 'aPi.HUB.lab', type: A }));
  assert.deepEqual([id, questions[0].name, answers[0].name], [999, 'aPi.HUB.lab', 'aPi.HUB.lab']);
});

interface Raw {
  readonly name?: Uint8Array;
  readonly type?: number;
  readonly class?: number;
  readonly flags?: number;
  readonly counts?: readonly [number, number, number, number];
  readonly additional?: Uint8Array;
}

function raw({
  name: asked = encodeDnsName('api.hub.lab'),
  type = A,
  class: questionClass = 1,
  flags = 0x0100,
  additional = new Uint8Array(0),
  counts = [1, 0, 0, additional.length > 0 ? 1 : 0],
}: Raw): Buffer {
  const head = Buffer.alloc(12);
  [0xabcd, flags, ...counts].forEach((value, i) => head.writeUInt16BE(value, 2 * i));
  const question = Buffer.from([type >> 8, type & 0xff, questionClass >> 8, questionClass & 0xff]);
  return Buffer.concat([head, asked, question, additional]);
}

function opt(payload: number, version = 0, options = '', flags = 0): Buffer {
  const data = Buffer.from(options, 'hex');
  const bytes = Buffer.alloc(11);
  bytes.writeUInt16BE(41, 1);
  bytes.writeUInt16BE(payload, 3);
  bytes[6] = version;
  bytes.writeUInt16BE(flags, 7);
  bytes.writeUInt16BE(data.length, 9);
  return Buffer.concat([bytes, data]);
}

const rcodeOf = (query: Uint8Array) => rcodeName(ask(query).rcode);

test('queries that nobody should send get an rcode, or nothing', () => {
  assert.equal(askBytes(raw({ flags: 0x8100 })), undefined);
  assert.equal(askBytes(Buffer.alloc(11)), undefined);
  assert.equal(askBytes(Buffer.alloc(0)), undefined);
  for (let opcode = 1; opcode < 16; opcode++)
    assert.equal(rcodeOf(raw({ flags: opcode << 11 })), 'NOTIMP', `${opcode}`);
  for (const counts of [
    [0, 0, 0, 0],
    [2, 0, 0, 0],
    [1, 1, 0, 0],
    [1, 0, 1, 0],
    [1, 0, 0, 1],
    [1, 0, 0, 0xffff],
  ] as const)
    assert.equal(rcodeOf(raw({ counts })), 'FORMERR', counts.join(' '));
  for (const questionClass of [0, 3, 4, 254, 255])
    assert.equal(rcodeOf(raw({ class: questionClass })), 'REFUSED', `class ${questionClass}`);
  for (const type of [251, 252]) assert.equal(rcodeOf(raw({ type })), 'REFUSED', `type ${type}`);
});

test('names that cannot be are a FORMERR', () => {
  const cases = {
    'pointer to itself': [0xc0, 12],
    'pointer into the header': [3, 0x61, 0x62, 0x63, 0xc0, 0],
    'reserved label type': [0x40, 0x61, 0],
    'label without end': [63, 0x61],
    'name of 256 bytes': [...Buffer.from('\x01a'.repeat(127), 'latin1'), 1, 0x61, 0],
  };
  for (const [what, bytes] of Object.entries(cases))
    assert.equal(rcodeOf(raw({ name: Uint8Array.from(bytes) })), 'FORMERR', what);
  assert.equal(rcodeOf(raw({ name: encodeDnsName(`${'a.'.repeat(126)}a`) })), 'REFUSED');
});

test('EDNS: OPT is answered by OPT, with our own payload size, the bit DO, and no option', () => {
  const { additional } = ask(raw({ additional: opt(4096, 0, '000a00080102030405060708', 0x8000) }));
  assert.deepEqual(additional, [{ name: '', type: 41, class: 1232, ttl: 0x8000 }]);
  assert.deepEqual(ask(raw({})).additional, []);
});

test('EDNS: another version is BADVERS, and two OPT records or one with a name a FORMERR', () => {
  const { rcode, answers, additional } = ask(raw({ additional: opt(1232, 1) }));
  assert.deepEqual([rcodeName(rcode), answers.length, additional.length], ['BADVERS', 0, 1]);
  const two = Buffer.concat([opt(1232), opt(1232)]);
  assert.equal(rcodeOf(raw({ additional: two, counts: [1, 0, 0, 2] })), 'FORMERR');
  const named = Buffer.concat([Buffer.from([1, 0x61]), opt(1232)]);
  assert.equal(rcodeOf(raw({ additional: named })), 'FORMERR');
});

test('an answer that does not fit is truncated over UDP, and whole over TCP', () => {
  const asked = encodeDnsName('many.hub.lab');
  const isCut = (query: Buffer, isTcp = false) => {
    const bytes = askBytes(query, isTcp) ?? Buffer.alloc(0);
    const { flags, answers } = ask(query, isTcp);
    return [(flags & 0x0200) !== 0, answers.length, bytes.length <= 1232];
  };
  // 60 addresses take 960 bytes.
  assert.deepEqual(isCut(raw({ name: asked })), [true, 0, true]);
  assert.deepEqual(isCut(raw({ name: asked, additional: opt(512) })), [true, 0, true]);
  assert.deepEqual(isCut(raw({ name: asked, additional: opt(0) })), [true, 0, true]);
  assert.deepEqual(isCut(raw({ name: asked, additional: opt(1232) })), [false, 60, true]);
  assert.deepEqual(isCut(raw({ name: asked, additional: opt(65_535) })), [false, 60, true]);
  assert.deepEqual(isCut(raw({ name: asked }), true), [false, 60, true]);
});

test('no answer over UDP is longer than the client or we allow, whatever it asks', () => {
  const host = fc.constantFrom('many.hub.lab', 'x.apps.hub.lab', 'nope.hub.lab', 'hub.lab', 'x.org');
  fc.assert(
    fc.property(host, fc.nat(300), fc.nat(0xffff), fc.boolean(), (asked, type, payload, hasEdns) => {
      const query = raw({
        name: encodeDnsName(asked),
        type,
        ...(hasEdns && { additional: opt(payload) }),
      });
      const most = hasEdns ? Math.min(1232, Math.max(512, payload)) : 512;
      assert.ok((askBytes(query)?.length ?? 0) <= most);
    }),
    { numRuns: 2000 },
  );
});

test('every query gets an answer that can be read and repeats its id, or none', () => {
  const plain = [
    ...buildDnsQuery({ id: 0x1234, name: 'x.apps.hub.lab', type: A }),
    ...opt(1232, 0, '000c0004deadbeef'),
  ];
  const edit = fc.tuple(fc.nat(plain.length - 1), fc.nat(255));
  const mutated = fc.array(edit, { maxLength: 5 }).map(edits => {
    const bytes = Uint8Array.from(plain);
    for (const [at, byte] of edits) bytes[at] = byte;
    return bytes;
  });
  const cut = fc.tuple(mutated, fc.nat(plain.length)).map(([bytes, length]) => bytes.subarray(0, length));
  fc.assert(
    fc.property(fc.oneof(mutated, cut, fc.uint8Array({ maxLength: 600 })), fc.boolean(), (query, isTcp) => {
      if (askBytes(query, isTcp) === undefined) return assert.ok(query.length < 12 || query[2] >= 0x80);
      const { id, flags } = ask(query, isTcp);
      assert.equal(id, (query[0] << 8) | query[1]);
      assert.ok((flags & 0x8000) !== 0);
    }),
    { numRuns: 10_000 },
  );
});
