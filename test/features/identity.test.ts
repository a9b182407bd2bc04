// Signed cluster ids: an agent proves its id in a PROXY header or a CONNECT. Every failure is
// `bad-signature`, with alert 49 or 403, and the log has the cause.

import assert from 'node:assert/strict';
import { chmod, rm, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { clusterKey } from '../../src/identity/cluster-key.ts';
import { sign } from '../../src/identity/sign.ts';
import { parseIp } from '../../src/wire/ip-address.ts';
import { buildProxyV2, type Endpoint, parseProxyHeader, type Tlv } from '../../src/wire/proxy-protocol.ts';
import { formatSignature } from '../../src/wire/signature.ts';
import { run } from '../../testbed/run.ts';
import { startAgent } from '../../testbed/start-agent.ts';
import { type Causeway, causewayBin, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { alert, Backend, bytes, connectClient, hello, lineOf, servedBy, until, visit } from './given.ts';

const SECRET = 'a secret for tests, of at least 32 bytes';
const NEXT = 'the secret that comes after the first one';
/** Not in `agents`, unlike 127.0.0.1. */
const STRANGER = '127.0.0.9';
const ORIGIN = '10.1.2.3';
const SIGNATURE = 0xe1;

let backend: Backend;
let dir: TempDir;
let gateway: Causeway;
const stack = new AsyncDisposableStack();

before(async () => {
  dir = stack.use(await tempDir());
  backend = stack.use(await Backend.start({ name: 'backend' }));
  gateway = stack.use(await start());
});

after(() => stack.disposeAsync());

/** Has its own secret file. */
async function start({
  required = false,
  secrets = [SECRET],
  file = 'secret',
  workers = 2,
} = {}): Promise<Causeway> {
  await writeFile(dir.file(file), `${secrets.join('\n')}\n`);
  return startCauseway({ config: config({ required, file, workers }) });
}

function config({ required = false, file = 'secret', workers = 2 }): string {
  return `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
workers: ${workers}
timeouts: { hello: 3s }
identity: { secretFile: ${dir.file(file)}, required: ${required} }
clusters:
  - { name: open, id: Open-1, api: { hosts: [open.test], backends: ["${backend.text}"] } }
  - { name: other, id: other-1, api: { hosts: [other.test], backends: ["${backend.text}"] } }
  - { name: strict, id: strict-1, identity: required, api: { hosts: [strict.test], connect: [strict.svc], backends: ["${backend.text}"] } }
  - { name: narrow, id: narrow-1, allow: [10.0.0.0/8], api: { backends: ["${backend.text}"] } }
  - { name: few, id: few-1, limits: { connections: 1 }, api: { backends: ["${backend.text}"] } }
  - { name: nameless, api: { hosts: [nameless.test], backends: ["${backend.text}"] } }
`;
}

interface Signing {
  readonly secret?: string;
  /** The cluster whose key signs. */
  readonly keyOf?: string;
  /** The signed id. */
  readonly signed?: string;
  /** Time of the signature, relative to now. */
  readonly seconds?: number;
  readonly nonce?: Uint8Array;
  readonly change?: (signature: Uint8Array) => Uint8Array;
}

function signature(id: string, source: Endpoint | undefined, signing: Signing): Uint8Array {
  const { secret = SECRET, keyOf = id, signed = id, seconds = 0, nonce, change = same => same } = signing;
  const key = clusterKey(Buffer.from(secret), keyOf);
  return change(sign(key, { id: signed, source }, Date.now() + 1000 * seconds, nonce));
}

interface HeaderOptions {
  /** null is LOCAL. */
  readonly from?: string | null;
  readonly signedFrom?: string | null;
  readonly signatures?: number;
}

/** An agent's header; unsigned without `signing`. */
function header(
  id: string | undefined,
  signing?: Signing,
  { from = ORIGIN, signedFrom = from, signatures = 1 }: HeaderOptions = {},
): Uint8Array {
  const ends = (address: string | null) =>
    address === null
      ? {}
      : {
          source: { address: parseIp(address) as Uint8Array, port: 40_000 },
          destination: { address: parseIp(address) as Uint8Array, port: 6443 },
        };
  const tlvs: Tlv[] = id === undefined ? [] : [{ type: 0x20, value: Buffer.from(id) }];
  if (signing !== undefined) {
    // The source as in the header: 4 bytes for IPv4.
    const plain = buildProxyV2(ends(signedFrom));
    const parsed = parseProxyHeader(plain, 0, plain.length);
    assert.ok(parsed.kind === 'found');
    for (let i = 0; i < signatures; i++)
      tlvs.push({ type: SIGNATURE, value: signature(id ?? 'none', parsed.value.source, signing) });
  }
  return buildProxyV2({ ...ends(from), tlvs, crc32c: true });
}

function connectHead(name: string, ...signatures: readonly (Uint8Array | string)[]): string {
  const texts = signatures.map(one => (typeof one === 'string' ? one : formatSignature(one)));
  return `CONNECT ${name}:6443 HTTP/1.1\r\n${texts.map(text => `Causeway-Signature: ${text}\r\n`).join('')}\r\n`;
}

const connectSigned = (name: string, id: string, signing: Signing = {}) =>
  connectHead(name, signature(id, undefined, signing));

interface Heard {
  readonly reason: string;
  readonly receives: Buffer | number;
  readonly why?: string | RegExp;
  readonly clusterId?: string | null | undefined;
  readonly cluster?: string;
}

/** Asserts its bytes, its log line, and the warning. */
async function refused(
  at: Causeway,
  said: Uint8Array | string,
  { reason, receives, why, clusterId, cluster }: Heard,
  options = {},
): Promise<void> {
  const { received, end, address, since } = await visit(at.port, said, options);
  assert.equal(end, 'FIN');
  if (typeof receives === 'number') {
    assert.match(
      received.toString(),
      new RegExp(`^HTTP/1\\.1 ${receives} .*\\r\\n\\r\\n${reason}: .*\\n$`, 's'),
    );
  } else assert.deepEqual(received, receives);
  const line = await lineOf(at, { address, since });
  assert.equal(line.reason, reason);
  assert.equal(line.cluster, cluster ?? null);
  if (clusterId !== undefined) assert.equal(line.clusterId, clusterId);
  if (why === undefined) return;
  const fits = (text: unknown) => (typeof why === 'string' ? text === why : why.test(String(text)));
  // Each cause is logged once a second, so the warning may be another connection's.
  const warning = await at.line(one => one.msg === 'bad signature' && fits(one.why));
  assert.equal(warning.level, 'warn');
  assert.match(String(warning.client), /^127\.0\.0\.1:\d+$/);
  assert.ok(String(warning.fix).length > 20);
  assert.ok(Number(warning.count) >= 1);
}

const denied = alert(49);
const nothing = Buffer.alloc(0);

describe('a PROXY header', { concurrency: true }, () => {
  const served: readonly (readonly [what: string, header: () => Uint8Array])[] = [
    ['unsigned, where nothing is required', () => header('Open-1')],
    ['signed, where nothing is required', () => header('Open-1', {})],
    ['signed, where it is required', () => header('strict-1', {})],
    ['signed, with an IPv6 source', () => header('strict-1', {}, { from: '2001:db8::7' })],
    ['signed, without a source', () => header('strict-1', {}, { from: null })],
    ['signed 45 s ago', () => header('strict-1', { seconds: -45 })],
    ['signed 45 s ahead', () => header('strict-1', { seconds: 45 })],
    ['without an id', () => header(undefined)],
  ];
  for (const [what, make] of served) {
    test(`is served ${what}`, async () => {
      assert.equal(await servedBy(gateway.port, bytes(make(), hello('open.test'))), 'backend');
    });
  }

  const wrong: readonly (readonly [what: string, why: string | RegExp, header: () => Uint8Array])[] = [
    ['unsigned where it is required', 'missing', () => header('strict-1')],
    ['signed with another secret', 'wrong', () => header('Open-1', { secret: NEXT })],
    ["signed with another cluster's key", 'wrong', () => header('Open-1', { keyOf: 'other-1' })],
    ["signed for another cluster's id", 'wrong', () => header('Open-1', { signed: 'other-1' })],
    [
      "signed by another cluster's agent for itself",
      'wrong',
      () => header('strict-1', { keyOf: 'Open-1', signed: 'Open-1' }),
    ],
    ['signed for another source', 'wrong', () => header('Open-1', {}, { signedFrom: '10.1.2.4' })],
    ['signed for no source', 'wrong', () => header('Open-1', {}, { signedFrom: null })],
    [
      'signed for a source it does not tell',
      'wrong',
      () => header('Open-1', {}, { from: null, signedFrom: ORIGIN }),
    ],
    [
      'signed for the same source as IPv6',
      'wrong',
      () => header('Open-1', {}, { from: ORIGIN, signedFrom: '2001:db8::7' }),
    ],
    ['with a bit flipped', 'wrong', () => header('Open-1', { change: flip(52) })],
    ['with a byte too many', 'malformed', () => header('Open-1', { change: one => bytes(one, '\0') })],
    ['of version 2', 'malformed', () => header('Open-1', { change: flip(0, 3) })],
    ['signed an hour ago', /^too old by 3[56]\d\d s$/, () => header('Open-1', { seconds: -3600 })],
    ['signed an hour ahead', /^from the future by 3[45]\d\d s$/, () => header('Open-1', { seconds: 3600 })],
  ];
  for (const [what, why, make] of wrong) {
    test(`${what} is bad-signature: alert 49`, async () => {
      const reported = { reason: 'bad-signature', receives: denied, why };
      await refused(gateway, bytes(make(), hello('open.test')), reported);
    });
  }

  test('with a bad signature is closed silently if no hello follows', async () => {
    const reported = { reason: 'bad-signature', receives: nothing };
    await refused(gateway, bytes(header('strict-1'), 'GET / HTTP/1.1\r\n'), reported);
    await refused(gateway, bytes(header('Open-1', { secret: NEXT }), connectHead('open')), reported);
    await refused(gateway, header('strict-1'), reported);
    using silent = await connectClient(gateway.port);
    silent.send(header('strict-1'));
    silent.finish();
    await silent.untilEnd();
    assert.equal((await lineOf(gateway, silent)).reason, 'bad-signature');
  });

  test('with an unknown id is unknown-cluster, signed or not', async () => {
    const reported = { reason: 'unknown-cluster', receives: denied, clusterId: 'nobody' };
    await refused(gateway, bytes(header('nobody'), hello('open.test')), reported);
    await refused(gateway, bytes(header('nobody', {}), hello('open.test')), reported);
    await refused(gateway, bytes(header('nobody', { change: flip(52) }), hello('open.test')), reported);
  });

  test('with two signatures, or one and no id, is bad-proxy-header', async () => {
    const reported = { reason: 'bad-proxy-header', receives: nothing };
    await refused(gateway, bytes(header('Open-1', {}, { signatures: 2 }), hello('open.test')), reported);
    await refused(gateway, bytes(header(undefined, {}), hello('open.test')), reported);
  });

  test('from outside `agents` is untrusted-agent, even with a valid signature', async () => {
    const reported = { reason: 'untrusted-agent', receives: nothing };
    await refused(gateway, bytes(header('strict-1', {}), hello('open.test')), reported, { from: STRANGER });
  });

  test('of version 1 has no id, so it is served unsigned', async () => {
    const line = 'PROXY TCP4 10.1.2.3 172.20.0.1 40000 6443\r\n';
    assert.equal(await servedBy(gateway.port, bytes(line, hello('strict.test'))), 'backend');
  });
});

describe('a CONNECT', { concurrency: true }, () => {
  const served: readonly (readonly [what: string, head: () => string])[] = [
    ['unsigned, where nothing is required', () => connectHead('open')],
    ['signed, by the id', () => connectSigned('Open-1', 'Open-1')],
    ['signed, by the id in other letters', () => connectSigned('open-1', 'Open-1')],
    ['signed, by the id, where it is required', () => connectSigned('strict-1', 'strict-1')],
    ['signed, by the cluster name', () => connectSigned('strict', 'strict-1')],
    ['signed, by an API host', () => connectSigned('strict.test', 'strict-1')],
    ['signed, by a connect name', () => connectSigned('strict.svc', 'strict-1')],
    ['unsigned, to a cluster without an id', () => connectHead('nameless')],
  ];
  for (const [what, head] of served) {
    test(`is served ${what}`, async () => {
      using client = await connectClient(gateway.port);
      client.send(head());
      const heard = await client.receives('backend\n');
      assert.match(heard.toString(), /^HTTP\/1\.1 200 /);
    });
  }

  const wrong: readonly (readonly [
    what: string,
    why: string | RegExp,
    head: () => string,
    id?: string | null,
  ])[] = [
    ['unsigned, by the id', 'missing', () => connectHead('strict-1'), 'strict-1'],
    ['unsigned, by the name', 'missing', () => connectHead('strict'), 'strict-1'],
    ['unsigned, by an API host', 'missing', () => connectHead('strict.test'), 'strict-1'],
    ['unsigned, by a connect name', 'missing', () => connectHead('strict.svc'), 'strict-1'],
    [
      'signed with another secret',
      'wrong',
      () => connectSigned('open', 'Open-1', { secret: NEXT }),
      'Open-1',
    ],
    ["signed with another cluster's key", 'wrong', () => connectSigned('strict', 'Open-1')],
    ['signed for a source', 'wrong', () => connectHead('open', signedForSource())],
    ['signed, to a cluster without an id', 'wrong', () => connectSigned('nameless', 'nameless'), null],
    [
      'with padding',
      'malformed',
      () => connectHead('open', `${formatSignature(signature('Open-1', undefined, {}))}=`),
    ],
    ['with an empty signature', 'malformed', () => connectHead('open', '')],
    [
      'signed an hour ago',
      /^too old by 35\d\d s$/,
      () => connectSigned('open', 'Open-1', { seconds: -3600 }),
    ],
    [
      'signed an hour ahead',
      /^from the future by /,
      () => connectSigned('open', 'Open-1', { seconds: 3600 }),
    ],
  ];
  for (const [what, why, head, clusterId] of wrong) {
    test(`${what} is bad-signature: 403`, async () => {
      await refused(gateway, head(), { reason: 'bad-signature', receives: 403, why, clusterId });
    });
  }

  test('with two signatures is bad-request', async () => {
    const one = signature('Open-1', undefined, {});
    await refused(gateway, connectHead('open', one, one), { reason: 'bad-request', receives: 400 });
  });

  test('to an unknown name is unknown-host, signed or not', async () => {
    const reported = { reason: 'unknown-host', receives: 404 };
    await refused(gateway, connectSigned('nobody', 'nobody'), reported);
  });

  test('from outside `agents` is untrusted-agent, even with a valid signature', async () => {
    const reported = { reason: 'untrusted-agent', receives: 403 };
    await refused(gateway, connectSigned('strict', 'strict-1'), reported, { from: STRANGER });
  });
});

test('a signature is valid once, across workers and protocols', async () => {
  const said = bytes(header('strict-1', {}), hello('open.test'));
  assert.equal(await servedBy(gateway.port, said), 'backend');
  // The kernel spreads connections over both workers by port.
  for (let i = 0; i < 12; i++)
    await refused(gateway, said, { reason: 'bad-signature', receives: denied, why: 'replayed' });
  const nonce = new Uint8Array(12).fill(7);
  using client = await connectClient(gateway.port);
  client.send(connectSigned('strict', 'strict-1', { nonce }));
  await client.receives('backend\n');
  const again = bytes(header('Open-1', { nonce }), hello('open.test'));
  await refused(gateway, again, { reason: 'bad-signature', receives: denied, why: 'replayed' });
});

test('a connection that the cluster does not admit does not spend its signature', async () => {
  const said = (id: string) => bytes(header(id, {}), hello('open.test'));
  const outside = said('narrow-1');
  for (let i = 0; i < 3; i++)
    await refused(gateway, outside, { reason: 'not-allowed', receives: denied, cluster: 'narrow' });
  using first = await connectClient(gateway.port);
  first.send(said('few-1'));
  await first.receives('backend\n');
  const surplus = said('few-1');
  for (let i = 0; i < 3; i++)
    await refused(gateway, surplus, { reason: 'over-limit', receives: alert(80), cluster: 'few' });
  first.finish();
  await lineOf(gateway, first);
  assert.equal(await servedBy(gateway.port, surplus), 'backend');
  await refused(gateway, surplus, { reason: 'bad-signature', receives: denied, why: 'replayed' });
});

test('of many concurrent connections with the same signature, one is served', async () => {
  const said = bytes(header('strict-1', {}), hello('open.test'));
  const before = backend.connections.length;
  const heard = await Promise.all(
    Array.from({ length: 20 }, async () => {
      using client = await connectClient(gateway.port);
      client.send(said);
      await client.receivesOrEnds(7);
      return client.received().toString('latin1');
    }),
  );
  assert.equal(heard.filter(text => text.startsWith('backend')).length, 1);
  assert.equal(heard.filter(text => text === denied.toString('latin1')).length, 19);
  assert.equal(backend.connections.length, before + 1);
});

test('the warning has the id, the client, the cause and the fix, once', async () => {
  await using fresh = await start({ file: 'secret-warning', workers: 1 });
  const said = bytes(header('strict-1', { seconds: -90 }), hello('open.test'));
  const { address, since } = await visit(fresh.port, said);
  const { why, fix, time: _, ...line } = await fresh.line(one => one.msg === 'bad signature');
  assert.deepEqual(line, {
    level: 'warn',
    clusterId: 'strict-1',
    client: address,
    count: 1,
    msg: 'bad signature',
  });
  assert.match(String(why), /^too old by 3\d s$/);
  assert.match(
    String(fix),
    /^check the clocks: the agent's is 9\d s behind this gateway's, 60 s are allowed$/,
  );
  assert.equal((await lineOf(fresh, { address, since })).reason, 'bad-signature');
  assert.equal(fresh.lines().filter(one => one.msg === 'bad signature').length, 1);
});

test('every bad signature is counted, without client-chosen labels', async () => {
  const logged = () => gateway.connections().filter(line => line.reason === 'bad-signature').length;
  await until('their lines', () => logged() > 20);
  const labels = { reason: 'bad-signature' };
  await until(
    'the metric',
    async () => (await gateway.metric('causeway_connections_total', labels)) === logged(),
  );
  // Of several concurrent ones, all but one are detected after they were admitted.
  let named = 0;
  for (const cluster of ['', 'open', 'other', 'strict', 'nameless'])
    named += await gateway.metric('causeway_connections_total', { ...labels, cluster });
  assert.equal(named, logged());
});

test('required for the gateway: every id must be signed, SNI needs no signature', async () => {
  await using strict = await start({ required: true, file: 'secret-required', workers: 1 });
  const missing = { reason: 'bad-signature', why: 'missing' };
  await refused(strict, bytes(header('Open-1'), hello('open.test')), { ...missing, receives: denied });
  await refused(strict, connectHead('open'), { ...missing, receives: 403 });
  await refused(strict, connectHead('nameless'), { ...missing, receives: 403 });
  assert.equal(await servedBy(strict.port, bytes(header('Open-1', {}), hello('open.test'))), 'backend');
  assert.equal(await servedBy(strict.port, hello('open.test')), 'backend');
  await refused(strict, bytes(header('nobody'), hello('open.test')), {
    reason: 'unknown-cluster',
    receives: denied,
  });
});

test('without identity signatures are ignored', async () => {
  await using plain = await startCauseway({
    config: `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
clusters: [{ name: open, id: Open-1, api: { backends: ["${backend.text}"] } }]
`,
  });
  const forged = { change: flip(52) };
  const twice = header('Open-1', forged, { signatures: 2 });
  assert.equal(await servedBy(plain.port, bytes(twice, hello('open.test'))), 'backend');
  using client = await connectClient(plain.port);
  client.send(connectHead('open', 'nonsense', 'twice'));
  await client.receives('backend\n');
});

test('secrets are rotated without a gap by editing their file; a bad file changes nothing', async () => {
  const file = dir.file('secret-rotated');
  await using rotated = await start({ required: true, file: 'secret-rotated' });
  const isServed = async (secret: string) => {
    const { received } = await visitUntilAnswer(
      rotated.port,
      bytes(header('Open-1', { secret }), hello('open.test')),
    );
    return received.startsWith('backend');
  };
  const changed = (secrets: number) => (line: { msg: string; secrets?: unknown }) =>
    line.msg === 'secrets changed' && line.secrets === secrets;
  assert.deepEqual([await isServed(SECRET), await isServed(NEXT)], [true, false]);

  await writeFile(file, `${NEXT}\n${SECRET}\n`);
  await rotated.line(changed(2));
  await until('both secrets', async () => (await isServed(SECRET)) && (await isServed(NEXT)));

  await writeFile(file, `${NEXT}\n`);
  await rotated.line(changed(1));
  await until('the old secret to be gone', async () => !(await isServed(SECRET)));
  // Several connections, so that both workers are checked.
  for (let i = 0; i < 8; i++) assert.deepEqual([await isServed(SECRET), await isServed(NEXT)], [false, true]);

  await writeFile(file, 'too short\n');
  const refusal = await rotated.line(
    line => line.msg === 'secret file refused; keeping the previous secrets',
  );
  assert.equal(refusal.level, 'error');
  assert.match(String(refusal.error), /^line 1: a secret must have at least 32 bytes: this line has 9/);
  await rm(file);
  await rotated.line(line => line.error === 'there is no such file');
  assert.equal(await isServed(NEXT), true);
  assert.doesNotMatch(rotated.program.log(), /too short/);

  // An edit of causeway.yaml keeps the current secrets, even one that names another file.
  await rotated.write(config({ required: false, file: 'secret-rotated' }));
  await rotated.line(line => line.msg === 'applied' && line.generation === 2);
  assert.equal(await isServed(NEXT), true);
  assert.equal(await servedBy(rotated.port, bytes(header('Open-1'), hello('open.test'))), 'backend');
  await writeFile(dir.file('secret-moved'), SECRET);
  await rotated.write(config({ required: true, file: 'secret-moved' }));
  await rotated.line(line => line.msg === 'applied' && line.generation === 3);
  assert.deepEqual([await isServed(SECRET), await isServed(NEXT)], [true, false]);
  await writeFile(dir.file('secret-moved'), NEXT);
  await until('the other file to be watched', async () => await isServed(NEXT));
  await rotated.write(config({ required: true, file: 'secret-missing' }));
  const edit = await rotated.line(line => String(line.msg).startsWith('file refused'));
  assert.match(String(edit.error), /identity\.secretFile: .*secret-missing: there is no such file/);
  assert.equal(await isServed(NEXT), true);
});

test('run exits with 1 and a message if the secrets cannot be used; check warns', async () => {
  const file = dir.file('causeway.yaml');
  await writeFile(file, `admin: { on: off }\n${config({ file: 'secret-none' })}`);
  const missing = /causeway\.yaml:\d+:25: identity\.secretFile: .*secret-none: there is no such file/;
  const ran = await run(causewayBin, ['run', '-c', file]);
  assert.deepEqual([ran.code, ran.stdout.toString()], [1, '']);
  assert.match(ran.stderr, missing);
  const checked = await run(causewayBin, ['check', '-c', file]);
  assert.equal(checked.code, 0);
  assert.match(checked.stderr, missing);
  await writeFile(dir.file('secret-none'), 'short');
  const again = await run(causewayBin, ['run', '-c', file]);
  assert.equal(again.code, 1);
  const short = /:25: identity\.secretFile: .*line 1: a secret must have at least 32 bytes: this line has 5/;
  assert.match(again.stderr, short);
  const checkedAgain = await run(causewayBin, ['check', '-c', file]);
  assert.deepEqual([checkedAgain.code, checkedAgain.stdout.toString()], [1, '']);
  assert.match(checkedAgain.stderr, short);
});

describe('causeway identity key', { concurrency: true }, () => {
  const key = (...args: readonly string[]) => run(causewayBin, ['identity', 'key', ...args]);

  test('prints the agents’ key, derived from the first secret', async () => {
    const file = dir.file('secret-two');
    await writeFile(file, `\n${SECRET}\r\n${NEXT}\n`);
    const { code, stdout, stderr } = await key('--secret-file', file, '--cluster-id', 'Open-1');
    assert.deepEqual([code, stderr], [0, '']);
    const expected = Buffer.from(clusterKey(Buffer.from(SECRET), 'Open-1')).toString('base64url');
    assert.equal(stdout.toString(), `${expected}\n`);
    assert.match(expected, /^[\w-]{43}$/);
  });

  const mistakes: readonly (readonly [what: string, args: readonly string[], code: number, says: RegExp])[] =
    [
      [
        'the file is missing',
        ['--secret-file', '/nowhere', '--cluster-id', 'a'],
        1,
        /^\/nowhere: there is no such file\n$/,
      ],
      ['the file is none', ['--secret-file', '/', '--cluster-id', 'a'], 1, /^\/: must be a regular file/],
      [
        'the id is none',
        ['--secret-file', '/nowhere', '--cluster-id', 'a b'],
        64,
        /--cluster-id must be an id of 1 to 128/,
      ],
      ['the id is missing', ['--secret-file', '/nowhere'], 64, /causeway identity key --secret-file/],
      ['the file is not named', ['--cluster-id', 'a'], 64, /causeway identity key --secret-file/],
      ['a flag is unknown', ['--secret', 'x'], 64, /causeway help identity/],
    ];
  for (const [what, args, code, says] of mistakes) {
    test(`exits with ${code} when ${what}`, async () => {
      const ran = await key(...args);
      assert.deepEqual([ran.code, ran.stdout.toString()], [code, '']);
      assert.match(ran.stderr, says);
      assert.doesNotMatch(ran.stderr, /\bat .*:\d+:\d+/);
    });
  }

  test('prints its usage for another subcommand', async () => {
    const { code, stderr } = await run(causewayBin, ['identity', 'kee']);
    assert.equal(code, 64);
    assert.match(stderr, /Usage: causeway identity secret, or causeway identity key/);
  });
});

describe('causeway identity secret', () => {
  test('prints a new secret each time, which a gateway accepts', async () => {
    const made = await Promise.all([1, 2].map(() => run(causewayBin, ['identity', 'secret'])));
    for (const { code, stdout, stderr } of made) {
      assert.deepEqual([code, stderr], [0, '']);
      assert.match(stdout.toString(), /^[\w-]{43}\n$/);
    }
    assert.notEqual(made[0].stdout.toString(), made[1].stdout.toString());
    const file = dir.file('made');
    await writeFile(file, made[0].stdout);
    const { code } = await run(causewayBin, ['identity', 'key', '--secret-file', file, '--cluster-id', 'a']);
    assert.equal(code, 0);
  });

  for (const [umask, reported] of [
    ['077', ''],
    [
      '022',
      'causeway: other users can read the output file: chmod 600 it, and run umask 077 first next time\n',
    ],
  ] as const) {
    test(`can be redirected to a file by a shell with umask ${umask}`, async () => {
      const file = dir.file(`made-${umask}`);
      const line = `umask ${umask}; '${causewayBin}' identity secret > '${file}'`;
      const { code, stderr } = await run('sh', ['-c', line]);
      assert.deepEqual([code, stderr], [0, reported]);
    });
  }

  test('takes no flags', async () => {
    const { code } = await run(causewayBin, ['identity', 'secret', '--cluster-id', 'a']);
    assert.equal(code, 64);
  });
});

test('run and check warn of a secret file that others can read, until it is fixed', async () => {
  const file = dir.file('secret-open');
  await writeFile(file, SECRET, { mode: 0o644 });
  const text = config({ required: false, file: 'secret-open' });
  const warned = { key: 'identity.secretFile', file, mode: '0644', fix: `chmod 600 ${file}` };
  const isWarning = (line: LogLine) => line.msg === 'secret file can be read by others';
  await using gateway = await startCauseway({ config: text });
  const { key, file: named, mode, fix, level } = await gateway.line(isWarning);
  assert.deepEqual({ key, file: named, mode, fix }, warned);
  assert.equal(level, 'warn');

  // Logged once, whatever is edited.
  await gateway.write(config({ required: true, file: 'secret-open' }));
  await gateway.line(line => line.msg === 'applied');
  await gateway.write(text);
  await gateway.line(line => line.msg === 'applied' && line.generation === 3);
  assert.equal(gateway.lines().filter(isWarning).length, 1);

  const checked = dir.file('open.yaml');
  await writeFile(checked, text);
  const open = await run(causewayBin, ['check', '-c', checked]);
  assert.equal(open.code, 0);
  assert.match(
    open.stderr,
    /^warning: .*open\.yaml:\d+:25: identity\.secretFile: .*secret-open: other users can read this file \(mode 0644\): chmod 600 .*secret-open$/m,
  );

  await chmod(file, 0o600);
  const closed = await run(causewayBin, ['check', '-c', checked]);
  assert.deepEqual([closed.code, closed.stderr], [0, '']);
});

test('an agent warns of a key file that others can read', async () => {
  const file = dir.file('open.key');
  await writeFile(file, `${Buffer.from(clusterKey(Buffer.from(SECRET), 'Open-1')).toString('base64url')}\n`);
  await chmod(file, 0o640);
  const options = {
    uplink: 'proxy',
    gateway: '127.0.0.1:9',
    id: 'Open-1',
    args: ['--key-file', file],
  } as const;
  await using agent = await startAgent(options);
  const line = await agent.line(({ msg }) => msg === 'secret file can be read by others');
  assert.deepEqual([line.flag, line.file, line.mode], ['--key-file', file, '0640']);
});

function flip(at: number, bits = 1): (signature: Uint8Array) => Uint8Array {
  return signature => {
    const changed = Uint8Array.from(signature);
    changed[at] ^= bits;
    return changed;
  };
}

function signedForSource(): Uint8Array {
  return signature('Open-1', { address: Uint8Array.of(10, 1, 2, 3), port: 40_000 }, {});
}

/** The first bytes: a backend's greeting or an alert. */
async function visitUntilAnswer(port: number, said: Uint8Array): Promise<{ readonly received: string }> {
  using client = await connectClient(port);
  client.send(said);
  await client.receivesOrEnds(7);
  return { received: client.received().toString('latin1') };
}
