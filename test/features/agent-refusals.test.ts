// Refusals of agents, real or forged: each has one close reason at the gateway and a message in the agent's
// log that says what to do; nothing reaches the backend, and the next connection is served.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect } from 'node:net';
import { Duplex } from 'node:stream';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type ConnectionOptions, createServer, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { clusterKey } from '../../src/identity/cluster-key.ts';
import { sign } from '../../src/identity/sign.ts';
import { buildProxyV2 } from '../../src/wire/proxy-protocol.ts';
import { authorityOf, certificateFor, expiredCertificate } from '../../testbed/certificates.ts';
import { opensslClient } from '../../testbed/openssl-client.ts';
import { run } from '../../testbed/run.ts';
import { type RunningAgent, startAgent } from '../../testbed/start-agent.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import {
  API_HOST,
  ID,
  MISNAMED_HOST,
  OTHER_ID,
  SECRET,
  SilentBackend,
  StartedAhead,
  TUNNEL_HOST,
  World,
  writeKey,
} from './agent-given.ts';
import { alert, bytes, connectClient, hello, until, visit } from './given.ts';

let world: World;
/** The same with a short hello time-out. */
let hasty: World;
let good: RunningAgent;
before(async () => {
  [world, hasty] = await Promise.all([World.start(), World.start({ hello: '500ms' })]);
  good = await world.agent('proxy');
  await writeKey(world.dir.file('nobody.key'), 'nobody');
});
after(async () => {
  await good?.[Symbol.asyncDispose]();
  await hasty?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

let lines = 0;
let accepted = 0;
let marks = 0;
beforeEach(async () => {
  // Lines of the test before may still be on their way: none comes behind that of a connection after the last one.
  await until('the connections of the test before to end', async () => {
    const { counts } = (await world.gateway.status()) as { counts: { connections: number } };
    return counts.connections === 0;
  });
  const host = `mark-${marks++}.test`;
  await visit(world.gateway.port, hello(host));
  await world.gateway.line(line => line.msg === 'connection' && line.host === host);
  lines = world.gateway.connections().length;
  accepted = world.plain.accepted.length;
});

/** Waits for this many connections to end since the test began, and returns their close reasons. */
async function reasons(count: number): Promise<string[]> {
  await until(`${count} lines`, () => world.gateway.connections().length >= lines + count);
  return world.gateway
    .connections()
    .slice(lines)
    .map(({ reason }) => String(reason))
    .toSorted();
}

/** Asserts that nothing has reached the backend, and that the next client does. */
async function unharmed(): Promise<void> {
  assert.equal(world.plain.accepted.length, accepted);
  const before = world.gateway.connections().length;
  using ends = await world.open('proxy', good);
  ends.client.end('x');
  ends.backend.end();
  ends.backend.resume();
  await once(ends.backend, 'end');
  await until('its line', () => world.gateway.connections().length > before);
}

interface Refusal {
  readonly what: string;
  readonly uplink: 'proxy' | 'connect' | 'tunnel';
  readonly id?: string;
  readonly key?: string;
  readonly to?: 'stranger';
  readonly reasons: readonly string[];
  readonly alert: number | undefined;
  readonly msg: 'gateway closed at once' | 'gateway refused';
  readonly why: RegExp;
}

const closedAtOnce = 'gateway closed at once';
const refusals: readonly Refusal[] = [
  ...(['proxy', 'tunnel'] as const).flatMap((uplink): Refusal[] => {
    const outer = uplink === 'tunnel' ? ['done'] : [];
    const reported = { uplink, msg: closedAtOnce, why: /TLS alert.*--cluster-id.*signed/ } as const;
    return [
      {
        ...reported,
        what: 'an unknown id',
        id: 'nobody',
        key: 'nobody.key',
        reasons: [...outer, 'unknown-cluster'],
        alert: 49,
      },
      {
        ...reported,
        what: "another cluster's key",
        key: 'other.key',
        reasons: ['bad-signature', ...outer],
        alert: 49,
      },
      {
        ...reported,
        what: 'its own key for another cluster',
        id: OTHER_ID,
        key: 'key',
        reasons: ['bad-signature', ...outer],
        alert: 49,
      },
    ];
  }),
  {
    what: 'no signature where one is required',
    uplink: 'proxy',
    id: OTHER_ID,
    reasons: ['bad-signature'],
    alert: 49,
    msg: closedAtOnce,
    why: /signed/,
  },
  {
    what: 'an address that is not in agents',
    uplink: 'proxy',
    to: 'stranger',
    reasons: ['untrusted-agent'],
    alert: undefined,
    msg: closedAtOnce,
    why: /closed without an answer.*'agents'/,
  },
  ...(
    [
      [
        'an unknown id',
        { id: 'nobody' },
        'unknown-host',
        /404: unknown-host: .*no cluster with this --cluster-id/s,
      ],
      ["another cluster's key", { key: 'other.key' }, 'bad-signature', /403: bad-signature: .*--key-file/s],
      [
        'its own key for another cluster',
        { id: OTHER_ID, key: 'key' },
        'bad-signature',
        /403: bad-signature/,
      ],
      ['no signature where one is required', { id: OTHER_ID }, 'bad-signature', /403: bad-signature/],
      [
        'an address that is not in agents',
        { to: 'stranger' },
        'untrusted-agent',
        /403: untrusted-agent: .*'agents'/s,
      ],
    ] as const
  ).map(
    ([what, given, reason, why]): Refusal => ({
      what,
      uplink: 'connect',
      ...given,
      reasons: [reason],
      alert: 80,
      msg: 'gateway refused',
      why,
    }),
  ),
];

describe('an agent is refused', () => {
  const agents = new StartedAhead(
    refusals.map(({ uplink, id = ID, key, to }) => () => {
      const gateway =
        to === 'stranger' ? `127.0.0.2:${world.gateway.ports[1]}` : `127.0.0.1:${world.gateway.port}`;
      const flags = [
        ...(key === undefined ? [] : ['--key-file', world.dir.file(key)]),
        ...(uplink === 'tunnel' ? ['--server-name', TUNNEL_HOST, '--ca-file', world.caFile] : []),
      ];
      return startAgent({ uplink, gateway, id, args: flags });
    }),
  );
  after(() => agents[Symbol.asyncDispose]());

  for (const [number, { what, uplink, alert: code, msg, why, ...expected }] of refusals.entries()) {
    test(`by ${uplink}, with ${what}`, async () => {
      await using agent = await agents.take(number);
      using client = await connectClient(agent.port);
      client.send(hello('a.test'));
      assert.equal(await client.untilEnd(), 'FIN');
      client.finish();
      // The protocol is unknown if the client had not sent a byte when the gateway refused.
      const { in: said } = await agent.line(line => line.msg === 'connection');
      const word = code === undefined || said === 0 ? Buffer.alloc(0) : alert(code);
      assert.deepEqual(client.received(), word);
      assert.match(String((await agent.line(line => line.msg === msg)).why), why);
      assert.deepEqual(await reasons(expected.reasons.length), expected.reasons);
      await unharmed();
    });
  }
});

test('a client that leaves before the response is not reported as a refusal', async () => {
  const left = async (uplink: 'proxy' | 'tunnel') => {
    await using agent = await world.agent(uplink);
    // A message about the first would come before the second one's line.
    for (const round of [1, 2]) {
      using ends = await world.open(uplink, agent);
      ends.client.end();
      await once(ends.backend.resume(), 'end');
      ends.backend.end();
      await until('its line', () => agent.lines().filter(({ msg }) => msg === 'connection').length === round);
    }
    assert.deepEqual(
      agent.lines().filter(({ msg }) => msg === closedAtOnce),
      [],
    );
  };
  await Promise.all([left('proxy'), left('tunnel')]);
});

test('one kind of refusal does not suppress the message of another', async () => {
  await using gateway = await SilentBackend.start();
  await using agent = await startAgent({ uplink: 'proxy', gateway: `127.0.0.1:${gateway.port}`, id: ID });
  const answers: readonly [Uint8Array, RegExp][] = [
    [Buffer.alloc(0), /closed without an answer/],
    [alert(80), /answered with a TLS alert/],
  ];
  for (const [nth, [answer, why]] of answers.entries()) {
    using client = await connectClient(agent.port);
    client.send(hello(''));
    const { raw } = await until('the gateway', () => gateway.accepted[nth]);
    await until('the hello', () => raw.readableLength > hello('').length);
    raw.resume().end(answer);
    await client.untilEnd();
    client.finish();
    await agent.line(line => line.msg === closedAtOnce && why.test(String(line.why)));
  }
});

describe('a gateway is not trusted', () => {
  const cases: readonly (readonly [what: string, flags: () => Promise<string[]>, why: RegExp])[] = [
    [
      'whose certificate is for another name',
      async () => ['--server-name', MISNAMED_HOST, '--ca-file', world.caFile],
      /does not verify for misnamed\.example\.com: .*--server-name right, and --ca-file/,
    ],
    [
      'whose certificate another CA has signed',
      async () => ['--server-name', TUNNEL_HOST, '--ca-file', (await authorityOf('somebody else')).certFile],
      /does not verify for tunnel\.example\.com: .*--ca-file the CA that signed it/,
    ],
    [
      "whose certificate the system's CAs have not signed",
      async () => ['--server-name', TUNNEL_HOST],
      /does not verify for tunnel\.example\.com/,
    ],
  ];
  const both = (['tunnel', 'terminate'] as const).flatMap(uplink =>
    cases.map(([what, flags, why]) => ({ uplink, what, flags, why })),
  );
  const agents = new StartedAhead(
    both.map(({ uplink, flags }) => async () => {
      const own = await world.flags(uplink);
      return startAgent({
        uplink,
        gateway: `127.0.0.1:${world.gateway.port}`,
        id: ID,
        args: [...own.filter((_, at) => !isCa(own, at)), ...(await flags())],
      });
    }),
  );
  after(() => agents[Symbol.asyncDispose]());

  for (const [number, { uplink, what, why }] of both.entries()) {
    test(`by ${uplink}, ${what}`, async () => {
      await using agent = await agents.take(number);
      using client = await connectClient(agent.port);
      client.send(realHello());
      assert.equal(await client.untilEnd(), 'FIN');
      assert.deepEqual(client.received(), alert(80));
      const line = await agent.line(one => one.msg === 'gateway not reached');
      assert.match(String(line.why), why);
      const { reason, protocol } = await agent.line(one => one.msg === 'connection');
      assert.deepEqual([reason, protocol], ['connect-failed', null]);
      assert.deepEqual(await reasons(1), ['client-gone']);
      await unharmed();
    });
  }

  test('by terminate, at a tunnel host instead of an API server', async () => {
    const own = await world.flags('terminate');
    await using agent = await startAgent({
      uplink: 'terminate',
      gateway: `127.0.0.1:${world.gateway.port}`,
      id: ID,
      args: [...own, '--server-name', TUNNEL_HOST],
    });
    using client = await connectClient(agent.port);
    client.send(realHello(['h2', 'http/1.1']));
    await client.untilEnd();
    const { why } = await agent.line(one => one.msg === 'gateway not reached');
    assert.match(
      String(why),
      /takes none of the protocols that the client offers \(h2, http\/1\.1\)\. Is --server-name/,
    );
    assert.deepEqual(await reasons(1), ['not-recognized']);
  });

  test('whose certificate has expired', async () => {
    const expired = await expiredCertificate('expired.example.com');
    await using server = await SilentBackend.startTlsWith(expired, 'causeway/1');
    await using agent = await startAgent({
      uplink: 'tunnel',
      gateway: `127.0.0.1:${server.port}`,
      id: ID,
      args: [
        '--key-file',
        world.dir.file('key'),
        '--server-name',
        'expired.example.com',
        '--ca-file',
        expired.certFile,
      ],
    });
    using client = await connectClient(agent.port);
    client.send(hello(''));
    await client.untilEnd();
    const { why } = await agent.line(one => one.msg === 'gateway not reached');
    assert.match(String(why), /the certificate of expired\.example\.com has expired\. Renew it there/);
  });

  for (const [what, serverName, why] of [
    [
      'that is not the end of a tunnel',
      API_HOST,
      /api\.a\.test is not the end of a tunnel\. Is it in tunnel\.hosts/,
    ],
    ['that does not know the name', 'nobody.example.com', /does not know the name nobody\.example\.com/],
  ] as const) {
    test(`by tunnel, ${what}`, async () => {
      await using agent = await startAgent({
        uplink: 'tunnel',
        gateway: `127.0.0.1:${world.gateway.port}`,
        id: ID,
        args: ['--key-file', world.dir.file('key'), '--server-name', serverName, '--ca-file', world.caFile],
      });
      using client = await connectClient(agent.port);
      client.send(hello(''));
      assert.equal(await client.untilEnd(), 'FIN');
      assert.deepEqual(client.received(), alert(80));
      assert.match(String((await agent.line(one => one.msg === 'gateway not reached')).why), why);
      await unharmed();
    });
  }
});

/** Opens a tunnel as an agent does. */
async function tunnel(options: ConnectionOptions = {}): Promise<TLSSocket> {
  const raw = connect({ port: world.gateway.port, host: '127.0.0.1', allowHalfOpen: true });
  const outer = tlsConnect({
    socket: raw,
    servername: TUNNEL_HOST,
    ca: await readFile(world.caFile),
    ALPNProtocols: ['causeway/1'],
    ...options,
  });
  raw.on('error', () => {});
  outer.on('error', () => {});
  await new Promise<void>(resolve => outer.once('secureConnect', resolve).once('close', () => resolve()));
  return outer;
}

async function heard(stream: Duplex): Promise<Buffer> {
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  await new Promise<void>(resolve => stream.once('end', resolve).once('close', resolve));
  return Buffer.concat(chunks);
}

const source = { address: Uint8Array.of(10, 1, 2, 3), port: 40_000 };
const destination = { address: Uint8Array.of(172, 20, 0, 1), port: 6443 };

/** Signed `seconds` from now, or `unsigned`. */
function header(id: string | undefined, seconds: number | undefined = 0): Uint8Array {
  const key = clusterKey(Buffer.from(SECRET), id ?? '');
  const tlvs = id === undefined ? [] : [{ type: 0x20, value: Buffer.from(id) }];
  if (id !== undefined && !Number.isNaN(seconds))
    tlvs.push({ type: 0xe1, value: Buffer.from(sign(key, { id, source }, Date.now() + 1000 * seconds)) });
  return buildProxyV2({ source, destination, tlvs });
}
const unsigned = Number.NaN;

describe('inside a tunnel', () => {
  const cases: readonly (readonly [
    what: string,
    said: () => Uint8Array,
    reason: string,
    receives: Buffer,
  ])[] = [
    ['an id that is not signed', () => bytes(header(ID, unsigned), hello('')), 'bad-signature', alert(49)],
    ['a header without an id', () => bytes(header(undefined), hello('a.test')), 'bad-signature', alert(49)],
    ['a hello without a header', () => hello('a.test'), 'bad-signature', alert(49)],
    ['a signature of two minutes ago', () => bytes(header(ID, -120), hello('')), 'bad-signature', alert(49)],
    ['a signature of two minutes ahead', () => bytes(header(ID, 120), hello('')), 'bad-signature', alert(49)],
    [
      'garbage behind a good header',
      () => bytes(header(ID), 'nonsense\r\n'),
      'not-recognized',
      Buffer.alloc(0),
    ],
    ['garbage alone', () => bytes('\x01\x02\x03\x04nonsense'), 'bad-signature', Buffer.alloc(0)],
    ['a request', () => bytes('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n'), 'bad-signature', Buffer.alloc(0)],
    ['CONNECT', () => bytes(`CONNECT ${ID}:6443 HTTP/1.1\r\n\r\n`), 'bad-signature', Buffer.alloc(0)],
    [
      'CONNECT behind a good header',
      () => bytes(header(ID), `CONNECT ${ID}:6443 HTTP/1.1\r\n\r\n`),
      'not-recognized',
      Buffer.alloc(0),
    ],
    ['two headers', () => bytes(header(ID), header(ID), hello('')), 'bad-proxy-header', Buffer.alloc(0)],
  ];
  for (const [what, said, reason, receives] of cases) {
    test(`${what} is ${reason}`, async () => {
      const outer = await tunnel();
      outer.write(said());
      assert.deepEqual(await heard(outer), receives);
      outer.end();
      assert.deepEqual(await reasons(2), [reason, 'done'].toSorted());
      await unharmed();
    });
  }

  test('a replayed header is bad-signature', async () => {
    const replayed = header(ID);
    const first = await tunnel();
    first.write(bytes(replayed, hello('')));
    const { stream } = await until('the first', () => world.plain.accepted[accepted]);
    stream.end();
    first.end();
    await heard(first);
    const second = await tunnel();
    second.write(bytes(replayed, hello('')));
    assert.deepEqual(await heard(second), alert(49));
    second.end();
    assert.deepEqual(await reasons(4), ['bad-signature', 'done', 'done', 'done']);
    assert.match(
      String((await world.gateway.line(line => line.msg === 'bad signature' && line.why === 'replayed')).fix),
      /./,
    );
  });

  test('a tunnel host as the inner name is no tunnel: it goes to the cluster, as every unknown name', async () => {
    const outer = await tunnel();
    const inner = hello(TUNNEL_HOST);
    outer.write(bytes(header(ID), inner));
    const { stream } = await until('the backend', () => world.plain.accepted[accepted]);
    await until('the hello', () => stream.readableLength >= inner.length);
    assert.deepEqual(stream.read(), Buffer.from(inner));
    outer.destroy();
    stream.destroy();
    await reasons(2);
  });

  test('nothing at all is no-data, which is not logged', async () => {
    const outer = await tunnel();
    outer.end();
    await heard(outer);
    assert.deepEqual(await reasons(1), ['done']);
  });
});

describe('a client of terminate that refuses the certificate', () => {
  // An HTTP/2 server sends first, so there are bytes for the client while it refuses.
  for (const greeting of ['', 'SETTINGS']) {
    test(`is logged, with a server that ${greeting ? 'sends first' : 'waits'}`, async () => {
      const { certFile, keyFile } = await certificateFor(API_HOST);
      const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)]);
      const server = createServer({ cert, key }, socket => socket.on('error', () => {}).write(greeting));
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      using _ = { [Symbol.dispose]: () => server.close() };
      const { port } = server.address() as AddressInfo;
      const args = await world.flags('terminate');
      await using agent = await startAgent({
        uplink: 'terminate',
        gateway: `127.0.0.1:${port}`,
        id: ID,
        args,
      });
      const ca = (await authorityOf('somebody else')).certFile;
      const { handshake, printed } = await opensslClient({ connect: `127.0.0.1:${agent.port}`, ca });
      assert.equal(handshake, false, printed);
      const { why } = await agent.line(one => one.msg === 'client left');
      assert.match(String(why), /refused the certificate in --cert-file: \w+ alert [a-z ]+\. Is it for/);
    });
  }
});

test('a client of terminate whose handshake does not finish is ended in time', async () => {
  await using agent = await world.agent('terminate');
  // The agent waits for 10 s, once for the hello and once for the rest.
  const { received, end } = await visit(agent.port, realHello([]));
  assert.deepEqual([received.length > 0, end], [true, 'FIN']);
  await agent.line(({ reason }) => reason === 'hello-timeout');
});

describe('the end of a tunnel', () => {
  test('refuses a client that offers another protocol', async () => {
    const outer = await tunnel({ ALPNProtocols: ['h2'] });
    assert.equal(outer.destroyed, true);
    assert.deepEqual(await reasons(1), ['not-recognized']);
    await unharmed();
  });

  test('refuses a client that offers none', async () => {
    const outer = await tunnel({ ALPNProtocols: [] });
    assert.deepEqual(await heard(outer), Buffer.alloc(0));
    outer.destroy();
    assert.deepEqual(await reasons(1), ['not-recognized']);
    await unharmed();
  });

  test('answers garbage in the handshake with an alert', async () => {
    using client = await connectClient(world.gateway.port);
    client.send(realHello(), '\x16\x03\x03\x00\x04nope');
    await client.untilEnd();
    assert.deepEqual(await reasons(1), ['bad-hello']);
    await unharmed();
  });

  test('ends a handshake that does not finish in time', async () => {
    const { end } = await visit(hasty.gateway.port, realHello());
    assert.equal(end, 'FIN');
    await hasty.gateway.line(({ reason }) => reason === 'hello-timeout');
  });

  test('records a client that leaves during the handshake', async () => {
    using client = await connectClient(world.gateway.port);
    client.send(realHello());
    await client.receives(1);
    client.reset();
    assert.match((await reasons(1))[0], /^client-(gone|reset)$/);
    await unharmed();
  });
});

test('CONNECT reaches only configured backends', async () => {
  await using decoy = await SilentBackend.start();
  const names = [
    `127.0.0.1:${decoy.port}`,
    `localhost:${decoy.port}`,
    `[::1]:${decoy.port}`,
    `[::ffff:127.0.0.1]:${decoy.port}`,
    'example.com:443',
  ];
  for (const name of names) {
    const { received } = await visit(world.gateway.port, `CONNECT ${name} HTTP/1.1\r\nHost: ${name}\r\n\r\n`);
    assert.match(received.toString(), /^HTTP\/1\.1 404 /, name);
  }
  const gardener = `X-Gardener-Destination: outbound|${decoy.port}||localhost`;
  const { received } = await visit(world.gateway.port, `CONNECT ${ID}:1 HTTP/1.1\r\n${gardener}\r\n\r\n`);
  assert.match(received.toString(), /^HTTP\/1\.1 404 /);
  assert.equal(decoy.accepted.length, 0);
  await unharmed();
});

test('causeway check refuses a tunnel without identity.secretFile', async () => {
  const file = world.dir.file('check.yaml');
  const pair = `{ certFile: ${world.dir.file('tunnel.crt')}, keyFile: ${world.dir.file('tunnel.key')} }`;
  await writeFile(file, `listen: [":0"]\ntunnel: { hosts: [${TUNNEL_HOST}], certificates: [${pair}] }\n`);
  const { code, stderr } = await run(causewayBin, ['check', '-c', file]);
  assert.equal(code, 1);
  assert.match(stderr, /check\.yaml:2:\d+: tunnel: .*identity\.secretFile/);
});

function isCa(flags: readonly string[], at: number): boolean {
  return [flags[at], flags[at - 1]].some(flag => flag === '--ca-file' || flag === '--server-name');
}

/** A complete ClientHello, as Node sends it. */
function realHello(alpn: readonly string[] = ['causeway/1']): Buffer {
  const sent: Buffer[] = [];
  const transport = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      sent.push(chunk);
      done();
    },
  });
  tlsConnect({ socket: transport, servername: TUNNEL_HOST, ALPNProtocols: [...alpn] }).on('error', () => {});
  return Buffer.concat(sent);
}
