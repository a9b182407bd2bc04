import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type ClientHello, MAX_HELLO, parseClientHello } from './client-hello.ts';
import {
  alpnExtension,
  ascii,
  extension,
  type HelloParts,
  helloMessage,
  helloSamples,
  inRecords,
  join,
  keyShareExtension,
  messageOf,
  serverNameExtension,
  vector,
} from './hello.samples.ts';
import type { Parsed } from './parsed.ts';

const name = 'api.managed1.linuxera.lab';

function parse(bytes: Uint8Array): Parsed<ClientHello> {
  return parseClientHello(bytes, 0, bytes.length);
}

/** Parses records that must contain a hello. */
function hello(bytes: Uint8Array): ClientHello {
  const answer = parse(bytes);
  assert.ok(answer.kind === 'found', JSON.stringify(answer));
  return answer.value;
}

function helloOf(...extensions: readonly Uint8Array[]): ClientHello {
  return hello(inRecords(helloMessage({ extensions })));
}

function reasonOf(bytes: Uint8Array): string {
  const answer = parse(bytes);
  assert.ok(answer.kind === 'reject', JSON.stringify(answer));
  return answer.reason;
}

/** Record sizes that split a message anywhere, often into very small records. */
const recordSizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 700 })), {
  maxLength: 60,
});

for (const sample of helloSamples) {
  test(`parseClientHello() reads the hello of ${sample.client}`, () => {
    assert.deepEqual(hello(sample.bytes), sample.hello);
  });
}

test('parseClientHello() reads the same for any split into records', () => {
  fc.assert(
    fc.property(fc.constantFrom(...helloSamples), recordSizes, (sample, sizes) => {
      const bytes = inRecords(messageOf(sample.bytes), sizes);
      assert.deepEqual(hello(bytes), { ...sample.hello, end: bytes.length });
    }),
    { numRuns: 400 },
  );
});

test('parseClientHello() reads the same with a record boundary at each single byte', () => {
  for (const sample of helloSamples) {
    const message = messageOf(sample.bytes);
    for (let cut = 1; cut < message.length; cut++) {
      const bytes = inRecords(message, [cut]);
      assert.deepEqual(
        hello(bytes),
        { ...sample.hello, end: bytes.length },
        `${sample.client} cut at ${cut}`,
      );
    }
  }
});

test('parseClientHello() asks for more on every proper prefix of any records', () => {
  fc.assert(
    fc.property(fc.constantFrom(...helloSamples), recordSizes, (sample, sizes) => {
      const bytes = inRecords(messageOf(sample.bytes), sizes);
      for (let to = 0; to < bytes.length; to++) {
        if (parseClientHello(bytes, 0, to).kind !== 'incomplete')
          assert.fail(`decided at ${to} of ${bytes.length}`);
      }
    }),
    { numRuns: 50 },
  );
});

test('parseClientHello() reads back any name and protocols', () => {
  const word = fc
    .uint8Array({ minLength: 1, maxLength: 60 })
    .map(bytes => Buffer.from(bytes).toString('latin1'));
  const other = fc.tuple(fc.integer({ min: 100, max: 0xfe00 }), fc.uint8Array({ maxLength: 40 }));
  fc.assert(
    fc.property(
      word,
      fc.array(word, { minLength: 1, maxLength: 5 }),
      fc.array(other, { maxLength: 4 }),
      recordSizes,
      (serverName, alpn, others, sizes) => {
        const extensions = [
          ...others.map(([type, body]) => extension(type, body)),
          serverNameExtension(`${serverName}.`),
          alpnExtension(...alpn),
        ];
        const found = hello(inRecords(helloMessage({ extensions }), sizes));
        assert.equal(
          found.serverName,
          serverName.replace(/[A-Z]/g, capital => capital.toLowerCase()),
        );
        assert.deepEqual(found.alpn, alpn);
      },
    ),
    { numRuns: 300 },
  );
});

test('parseClientHello() finds no name in a hello without extensions, as old clients send', () => {
  const bytes = inRecords(helloMessage({ sessionId: new Uint8Array(0) }));
  const nothing = { serverName: undefined, alpn: [], ech: false, postQuantum: false };
  assert.deepEqual(hello(bytes), { ...nothing, end: bytes.length });
  assert.deepEqual(hello(inRecords(helloMessage({ extensions: [] }))).serverName, undefined);
});

test('parseClientHello() converts names to lower case and drops one trailing dot', () => {
  assert.equal(helloOf(serverNameExtension('API.Managed1.Lab')).serverName, 'api.managed1.lab');
  assert.equal(helloOf(serverNameExtension('api.lab.')).serverName, 'api.lab');
  assert.equal(helloOf(serverNameExtension('api.lab..')).serverName, 'api.lab.');
  assert.equal(helloOf(serverNameExtension('.')).serverName, '');
  assert.equal(helloOf(serverNameExtension('\xc0\x00\x80Z')).serverName, '\xc0\x00\x80z');
});

test('parseClientHello() skips names of other types', () => {
  const other = join(Uint8Array.of(7), vector(2, ascii('other')));
  const host = join(Uint8Array.of(0), vector(2, ascii(name)));
  assert.equal(helloOf(extension(0, vector(2, other))).serverName, undefined);
  assert.equal(helloOf(extension(0, vector(2, join(other, host, other)))).serverName, name);
});

test('parseClientHello() detects post-quantum key shares', () => {
  for (const group of [0x11ec, 0x11eb, 0x11ed, 0x6399]) {
    assert.equal(helloOf(keyShareExtension(0x0a0a, group, 0x001d)).postQuantum, true);
  }
  assert.equal(helloOf(keyShareExtension(0x001d, 0x0017)).postQuantum, false);
  assert.equal(helloOf(keyShareExtension()).postQuantum, false);
  // The group is offered without a share.
  const groups = extension(10, vector(2, Uint8Array.of(0x11, 0xec)));
  assert.equal(helloOf(groups, keyShareExtension(0x001d)).postQuantum, false);
});

test('parseClientHello() ends where the hello ends and ignores early data', () => {
  const bytes = inRecords(helloMessage({ extensions: [serverNameExtension(name)] }));
  const earlyData = join(Uint8Array.of(23, 3, 3), vector(2, new Uint8Array(100)));
  assert.equal(hello(join(bytes, earlyData)).end, bytes.length);
});

test('parseClientHello() names what is wrong inside the hello', () => {
  const overrun = join(Uint8Array.of(0, 0), Uint8Array.of(0xff, 0xff));
  const host = join(Uint8Array.of(0), vector(2, ascii('a')));
  const shortShare = Uint8Array.of(0, 0x1d, 0, 3, 1, 2);
  const cases: readonly (readonly [reason: string, parts: HelloParts])[] = [
    ['session-id-too-long', { sessionId: new Uint8Array(33) }],
    ['cipher-suites-length', { cipherSuites: new Uint8Array(3) }],
    ['cipher-suites-length', { cipherSuites: new Uint8Array(0) }],
    ['compression-methods-empty', { compressions: new Uint8Array(0) }],
    ['extension-overrun', { extensions: [Uint8Array.of(0, 23, 0)] }],
    ['extension-overrun', { extensions: [overrun] }],
    ['server-name-twice', { extensions: [serverNameExtension('a'), serverNameExtension('a')] }],
    ['alpn-twice', { extensions: [alpnExtension('a'), alpnExtension('a')] }],
    ['key-share-twice', { extensions: [keyShareExtension(), keyShareExtension()] }],
    ['ech-twice', { extensions: [extension(0xfe0d, ascii('a')), extension(0xfe0d, ascii('a'))] }],
    ['host-name-twice', { extensions: [serverNameExtension('a', 'b')] }],
    ['server-name-empty', { extensions: [serverNameExtension('')] }],
    ['server-name-length', { extensions: [extension(0, new Uint8Array(0))] }],
    ['server-name-length', { extensions: [extension(0, vector(2, new Uint8Array(0)))] }],
    ['server-name-length', { extensions: [extension(0, join(vector(2, host), Uint8Array.of(0)))] }],
    ['server-name-overrun', { extensions: [extension(0, vector(2, Uint8Array.of(0, 0)))] }],
    ['server-name-overrun', { extensions: [extension(0, vector(2, Uint8Array.of(0, 0, 9, 65)))] }],
    ['alpn-length', { extensions: [extension(16, new Uint8Array(1))] }],
    ['alpn-length', { extensions: [extension(16, vector(2, new Uint8Array(0)))] }],
    ['alpn-empty', { extensions: [alpnExtension('h2', '')] }],
    ['alpn-overrun', { extensions: [extension(16, vector(2, Uint8Array.of(3, 65, 65)))] }],
    ['key-share-length', { extensions: [extension(51, new Uint8Array(1))] }],
    ['key-share-length', { extensions: [extension(51, Uint8Array.of(0, 1))] }],
    ['key-share-overrun', { extensions: [extension(51, vector(2, shortShare.subarray(0, 3)))] }],
    ['key-share-overrun', { extensions: [extension(51, vector(2, shortShare))] }],
  ];
  for (const [reason, parts] of cases) {
    const message = helloMessage(parts);
    assert.equal(reasonOf(inRecords(message)), reason);
    assert.equal(reasonOf(inRecords(message, [1, 1, 40, 7, 1, 2, 1])), reason, `${reason}, over records`);
  }
});

test('parseClientHello() refuses a truncated hello', () => {
  const whole = helloMessage({ extensions: [extension(23, new Uint8Array(0))] });
  const reasons = new Set<string>();
  let foundAt: number | undefined;
  for (let length = 0; length < whole.length - 4; length++) {
    const cut = join(Uint8Array.of(1), vector(3, whole.subarray(4, 4 + length)));
    const answer = parse(inRecords(cut));
    if (answer.kind === 'reject') reasons.add(answer.reason);
    else foundAt = length;
  }
  assert.deepEqual(
    [...reasons],
    [
      'hello-too-short',
      'session-id-overrun',
      'cipher-suites-overrun',
      'compression-methods-overrun',
      'extensions-overrun',
      'extensions-length',
    ],
  );
  assert.equal(foundAt, whole.length - 4 - 6, 'only the one without an extensions block is complete');
});

test('parseClientHello() refuses bytes after the extensions, and after the hello in its record', () => {
  const whole = helloMessage({ extensions: [serverNameExtension(name)] });
  const longer = join(Uint8Array.of(1), vector(3, join(whole.subarray(4), Uint8Array.of(0))));
  assert.equal(reasonOf(inRecords(longer)), 'extensions-length');
  assert.equal(reasonOf(inRecords(join(whole, Uint8Array.of(0)))), 'bytes-after-message');
  assert.equal(reasonOf(inRecords(join(whole, Uint8Array.of(0)), [20])), 'bytes-after-message');
});

test('parseClientHello() refuses bad records at the first wrong byte', () => {
  const cases: readonly (readonly [reason: string, bytes: readonly number[]])[] = [
    ['not-a-handshake-record', [0x17]],
    ['record-version', [0x16, 0x02]],
    ['record-empty', [0x16, 3, 1, 0, 0]],
    ['record-too-long', [0x16, 3, 1, 0x40, 0x01]],
    ['handshake-type', [0x16, 3, 1, 2, 0, 2]],
    ['message-too-long', [0x16, 3, 1, 2, 0, 1, 1, 0, 0]],
    ['bytes-after-message', [0x16, 3, 1, 0, 50, 1, 0, 0, 45]],
    // The same in a second record.
    ['not-a-handshake-record', [0x16, 3, 1, 0, 1, 1, 0x15]],
    ['record-empty', [0x16, 3, 1, 0, 1, 1, 0x16, 3, 3, 0, 0]],
  ];
  for (const [reason, bytes] of cases) {
    assert.equal(reasonOf(Uint8Array.from(bytes)), reason);
    assert.equal(parseClientHello(Uint8Array.from(bytes), 0, bytes.length - 1).kind, 'incomplete', reason);
  }
});

test('parseClientHello() accepts hellos of up to 64 KiB on the wire and not a byte more', () => {
  const records = 4;
  const rest = helloMessage({ extensions: [serverNameExtension(name), padding(0)] }).length + 5 * records;
  const most = helloMessage({ extensions: [serverNameExtension(name), padding(MAX_HELLO - rest)] });
  const bytes = inRecords(most);
  assert.equal(bytes.length, MAX_HELLO);
  assert.equal(hello(bytes).serverName, name);

  const tooLong = helloMessage({ extensions: [serverNameExtension(name), padding(MAX_HELLO - rest + 1)] });
  assert.equal(reasonOf(inRecords(tooLong)), 'message-too-long');
  // In five records it cannot fit, as the length in the first one already shows.
  const split = inRecords(most, [100]);
  assert.equal(parseClientHello(split, 0, 9).kind, 'reject');
  assert.equal(parseClientHello(split, 0, 8).kind, 'incomplete');
});

test('parseClientHello() reads a few bytes per record while the hello trickles in', () => {
  const large = helloMessage({
    extensions: [padding(16_000), serverNameExtension(name)],
  });
  assert.ok(mostReads(inRecords(large), 7) <= 16);
  assert.ok(mostReads(inRecords(large, [8000]), 7) <= 24);
  // The worst case: 64 KiB of one-byte records.
  const worst = inRecords(helloMessage({ extensions: [padding(10_700)] }), ones(20_000));
  assert.ok(worst.length > MAX_HELLO - 1500 && worst.length <= MAX_HELLO);
  assert.ok(mostReads(worst, 997) <= 8 * (worst.length / 6));
});

test('parseClientHello() never needs more bytes than the hello has', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...helloSamples),
      fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 20 }),
      fc.nat(),
      (sample, sizes, seed) => {
        const bytes = inRecords(messageOf(sample.bytes), sizes);
        const to = seed % bytes.length;
        const answer = parseClientHello(bytes, 0, to);
        assert.ok(answer.kind === 'incomplete');
        const need = answer.need ?? 0;
        assert.ok(need <= bytes.length, `${need} of ${bytes.length}`);
      },
    ),
  );
});

test('parseClientHello() is called a few dozen times for the worst trickle if its need is respected', () => {
  const worst = inRecords(helloMessage({ extensions: [padding(10_700)] }), ones(20_000));
  let calls = 0;
  let to = 1;
  for (; ; calls++) {
    const answer = parseClientHello(worst, 0, to);
    if (answer.kind !== 'incomplete') break;
    to = Math.max(to + 1, answer.need ?? 0);
  }
  assert.equal(to, worst.length);
  assert.ok(calls < 100, `${calls}`);
});

test('parseClientHello() refuses a hello in one-byte records that exceeds 64 KiB', () => {
  const message = helloMessage({ extensions: [padding(12_000)] });
  const bytes = inRecords(message, ones(message.length));
  let to = 0;
  while (to < bytes.length && parseClientHello(bytes, 0, to).kind === 'incomplete') to += 61;
  assert.ok(to < MAX_HELLO);
  assert.equal(reasonOf(bytes.subarray(0, to)), 'message-too-long');
});

function padding(length: number): Uint8Array {
  return extension(21, new Uint8Array(length));
}

function ones(count: number): number[] {
  return Array.from({ length: count }, () => 1);
}

/** The most bytes that one call reads, on prefixes that grow by `step`. */
function mostReads(bytes: Uint8Array, step: number): number {
  let reads = 0;
  const counting = new Proxy(bytes, {
    get: (target, key) => {
      reads++;
      return Reflect.get(target, key) as unknown;
    },
  });
  let most = 0;
  for (let to = 0; to < bytes.length; to += step) {
    reads = 0;
    assert.equal(parseClientHello(counting, 0, to).kind, 'incomplete');
    most = Math.max(most, reads);
  }
  return most;
}
