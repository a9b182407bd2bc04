// Cleartext HTTP: each request is routed by its own Host, logged and counted;
// a refusal is a status with the reason, and ends the connection.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';
import { type ClientOptions, lineOf, proxyV2, startBlackHole, until } from './given.ts';
import {
  echoOf,
  HttpBackend,
  HttpClient,
  request,
  requestLines,
  sharedGateway,
  sharedStack,
  untilIdle,
} from './http-given.ts';

const BALANCER = '127.0.0.10';
const STRANGER = '127.0.0.99';
const HELLO_MS = 1000;

const stack = sharedStack();

const one = stack.use(await HttpBackend.start('one'));
const two = stack.use(await HttpBackend.start('two'));
const { port: blackHole } = stack.use(await startBlackHole());
const closing = stack.use(
  await HttpBackend.start('closing', { on: { '/': ({ socket }) => socket.destroy() } }),
);
const { gateway, client } = await sharedGateway(
  stack,
  `
listen:
  - { on: "127.0.0.1:0", balancers: [${BALANCER}/32] }
  - { on: "127.0.0.2:0", only: [api, apps-https] }
workers: 2
timeouts: { hello: ${HELLO_MS}ms, connect: 300ms }
retries: 0
clusters:
  - name: one
    apps: { hosts: ["*.one.test", one.test], https: ["127.0.0.1:1"], http: ["${one.text}"] }
  - name: two
    apps: { hosts: [two.test, exact.one.test], http: ["${two.text}"] }
  - name: closed-cluster
    allow: [127.0.0.1/32, 192.0.2.0/24]
    apps: { hosts: [allowed.test], http: ["${one.text}"] }
  - name: closed-route
    apps: { hosts: [route-allowed.test], http: { backends: ["${one.text}"], allow: [127.0.0.1/32] } }
  - name: moved
    apps: { hosts: [moved.test, "*.moved.test"], http: redirect }
  - { name: none, apps: { hosts: [none.test], http: [] } }
  - { name: dead, apps: { hosts: [dead.test], http: ["127.0.0.1:${await freePort()}"] } }
  - { name: slow, apps: { hosts: [slow.test], http: ["127.0.0.1:${blackHole}"] } }
  - { name: closing, apps: { hosts: [closing.test], http: ["${closing.text}"] } }
`,
);

describe('a request is routed by its Host', () => {
  test('each on its own, to two clusters on one connection', async () => {
    using visitor = await client();
    for (const [host, backend] of [
      ['one.test', 'one'],
      ['two.test', 'two'],
      ['one.test', 'one'],
      ['TWO.test.', 'two'],
      ['two.test:8080', 'two'],
    ]) {
      assert.equal((await visitor.echo(host)).backend, backend, host);
    }
    visitor.peer.finish();
    assert.equal(await visitor.ended(), 'FIN');
    const lines = await requestLines(gateway, visitor, 5);
    assert.deepEqual(
      lines.map(({ host, cluster, route, backend, method, status }) => [
        host,
        cluster,
        route,
        backend,
        method,
        status,
      ]),
      [
        ['one.test', 'one', 'apps-http', one.text, 'GET', 200],
        ['two.test', 'two', 'apps-http', two.text, 'GET', 200],
        ['one.test', 'one', 'apps-http', one.text, 'GET', 200],
        ['two.test', 'two', 'apps-http', two.text, 'GET', 200],
        ['two.test', 'two', 'apps-http', two.text, 'GET', 200],
      ],
    );
    assert.deepEqual(Object.keys(lines[0]).slice(-9), [
      'client',
      'host',
      'cluster',
      'route',
      'backend',
      'method',
      'status',
      'ms',
      'msg',
    ]);
    // One log line for the connection, with the last request's route.
    const line = await lineOf(gateway, visitor);
    assert.deepEqual(
      [line.protocol, line.host, line.cluster, line.route, line.backend, line.reason],
      ['http', 'one.test', 'two', 'apps-http', two.text, 'done'],
    );
    assert.equal(line.out, visitor.peer.received().length);
    assert.equal(typeof line.dialMs, 'number');
  });

  test('a wildcard covers one label, and an exact name has priority', async () => {
    using visitor = await client();
    assert.equal((await visitor.echo('a.one.test')).backend, 'one');
    assert.equal((await visitor.echo('exact.one.test')).backend, 'two');
    assert.equal((await visitor.get('a.b.one.test')).status, 421);
  });

  test('the target may be absolute with the same host: the backend gets only the path', async () => {
    using visitor = await client();
    visitor.send(request('GET http://one.test/a?b=c HTTP/1.1', 'Host: one.test'));
    assert.equal(echoOf(await visitor.answer()).url, '/a?b=c');
    if (supports('strictHttp')) {
      visitor.send(request('GET HTTP://one.test?b=c HTTP/1.1', 'Host: one.test'));
      assert.equal(echoOf(await visitor.answer()).url, '/?b=c');
    }
    visitor.send(request('OPTIONS * HTTP/1.1', 'Host: one.test'));
    assert.equal(echoOf(await visitor.answer()).url, '*');
  });

  test('a listener with `only` serves no other kinds', async () => {
    using visitor = await HttpClient.connect(gateway.ports[1], { to: '127.0.0.2' });
    assert.equal((await visitor.get('one.test')).status, 421);
  });
});

describe('HTTP/1.0', () => {
  test('is answered and closed', async () => {
    using visitor = await client();
    visitor.send(request('GET / HTTP/1.0', 'Host: one.test'));
    assert.equal(echoOf(await visitor.lastAnswer()).backend, 'one');
    assert.equal((await lineOf(gateway, visitor)).reason, 'done');
  });

  if (supports('keepsHttp10'))
    test('stays open on request', async () => {
      using visitor = await client();
      for (const host of ['one.test', 'two.test']) {
        visitor.send(request('GET / HTTP/1.0', `Host: ${host}`, 'Connection: keep-alive'));
        assert.equal(`${echoOf(await visitor.answer()).backend}.test`, host);
      }
    });

  test('gets no 100-continue', async () => {
    using visitor = await client();
    visitor.send(
      request('POST / HTTP/1.0', 'Host: one.test', 'Content-Length: 2', 'Expect: 100-continue'),
      'hi',
    );
    const echo = echoOf(await visitor.lastAnswer());
    assert.deepEqual([echo.body, echo.headers.expect], ['hi', undefined]);
  });
});

describe('the client', () => {
  const forged = [
    'X-Forwarded-For: 203.0.113.1',
    'X-Forwarded-Proto: https',
    'X-Forwarded-Host: forged.test',
    'X-Forwarded-Prefix: /forged',
    'X_Forwarded_For: 203.0.113.2',
    'Forwarded: for=203.0.113.3',
  ];

  test('is in X-Forwarded-*, and the client’s own headers are dropped', async () => {
    using visitor = await client();
    const { headers } = await visitor.echo('one.test:8080', '/', ...forged);
    assert.deepEqual(Object.fromEntries(Object.entries(headers).filter(([name]) => /forwarded/.test(name))), {
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'http',
      'x-forwarded-host': 'one.test:8080',
    });
    assert.equal(headers.host, 'one.test:8080');
  });

  test('is taken from the headers of a balancer that sends no PROXY header', async () => {
    using visitor = await client({ from: BALANCER });
    const { headers } = await visitor.echo('one.test', '/', ...forged);
    assert.equal(headers['x-forwarded-for'], `203.0.113.1, ${BALANCER}`);
    assert.equal(headers['x-forwarded-proto'], 'https');
    assert.equal(headers['x-forwarded-host'], 'forged.test');
    assert.equal(headers.forwarded, 'for=203.0.113.3');
  });

  for (const [version, header] of [
    ['v1', 'PROXY TCP4 192.0.2.7 192.0.2.1 40000 80\r\n'],
    ['v2', proxyV2({ source: '192.0.2.7' })],
  ] as const) {
    test(`is taken from a balancer's PROXY header (${version}), also for allow lists, and the client's own headers are dropped`, async () => {
      using visitor = await client({ from: BALANCER });
      // For every request on that connection.
      for (const first of [header, '']) {
        visitor.send(first, request('GET / HTTP/1.1', 'Host: allowed.test', ...forged));
        const { headers } = echoOf(await visitor.answer());
        assert.deepEqual(
          Object.fromEntries(Object.entries(headers).filter(([name]) => /forwarded/.test(name))),
          {
            'x-forwarded-for': '192.0.2.7',
            'x-forwarded-proto': 'http',
            'x-forwarded-host': 'allowed.test',
          },
        );
      }
      await requestLines(gateway, { address: '192.0.2.7:40000' }, version === 'v1' ? 2 : 4);
    });
  }

  test('is the balancer itself for a PROXY header with LOCAL, whose X-Forwarded-* are dropped', async () => {
    using visitor = await client({ from: BALANCER });
    visitor.send(proxyV2({}), request('GET / HTTP/1.1', 'Host: one.test', ...forged));
    const { headers } = echoOf(await visitor.answer());
    assert.deepEqual([headers['x-forwarded-for'], headers.forwarded], [BALANCER, undefined]);
  });

  test('headers named in Connection are dropped, except those that the backend relies on', async () => {
    using visitor = await client();
    const { headers } = await visitor.echo(
      'one.test',
      '/',
      'Connection: X-Hop, x-forwarded-for, host, keep-alive',
      'X-Hop: 1',
      'Keep-Alive: 5',
      'Proxy-Connection: keep-alive',
      'TE: trailers, deflate',
      'X-Kept: 1',
    );
    assert.deepEqual(
      ['x-hop', 'keep-alive', 'proxy-connection', 'te', 'x-kept', 'x-forwarded-for', 'host'].map(
        name => headers[name],
      ),
      [undefined, undefined, undefined, 'trailers', '1', '127.0.0.1', 'one.test'],
    );
  });
});

describe('http: redirect', () => {
  for (const [host, path, location] of [
    ['moved.test', '/', 'https://moved.test/'],
    ['moved.test:80', '/a/b?c=d&e', 'https://moved.test/a/b?c=d&e'],
    ['Moved.test:8080', '//x', 'https://Moved.test:8080//x'],
    ['a.moved.test', '/?', 'https://a.moved.test/?'],
  ]) {
    test(`${host}${path}`, async () => {
      using visitor = await client();
      const { status, headers } = await visitor.get(host, path);
      assert.deepEqual([status, headers.location, headers['content-length']], [308, location, '0']);
      // The connection stays open.
      assert.equal((await visitor.echo('one.test')).backend, 'one');
      const [line] = await requestLines(gateway, visitor, 2);
      assert.deepEqual([line.cluster, line.backend, line.status], ['moved', null, 308]);
    });
  }

  if (supports('keepsRedirected'))
    test('for a request with a body', async () => {
      using visitor = await client();
      visitor.send(request('POST /form HTTP/1.1', 'Host: moved.test', 'Content-Length: 5'), 'a=b&c');
      assert.equal((await visitor.answer()).headers.location, 'https://moved.test/form');
      visitor.send(request('POST /form HTTP/1.1', 'Host: moved.test', 'Content-Length: 5'), 'a=');
      assert.equal((await visitor.lastAnswer()).status, 308);
    });
});

interface Refusal {
  readonly what: string;
  readonly says?: string;
  readonly host?: string;
  readonly options?: ClientOptions;
  readonly status: number;
  readonly reason: string;
  readonly cluster?: string;
  readonly backend?: RegExp;
  /** No head was read. */
  readonly isUnreadable?: true;
  /** After a request the parser skips it. */
  readonly isReadOver?: true;
  /** The parser must be strict. */
  readonly isStrict?: true;
  /** Known only after the dial. */
  readonly isLate?: true;
}

const refusals: readonly Refusal[] = [
  { what: 'an unknown Host', host: 'unknown.test', status: 421, reason: 'unknown-host' },
  { what: 'an address for a Host', host: '127.0.0.1', status: 421, reason: 'unknown-host' },
  { what: 'an IPv6 address for a Host', host: '[::1]:80', status: 421, reason: 'unknown-host' },
  {
    what: "a client that the cluster's list leaves out",
    host: 'allowed.test',
    options: { from: STRANGER },
    status: 403,
    reason: 'not-allowed',
    cluster: 'closed-cluster',
  },
  {
    what: "a client that the route's list leaves out",
    host: 'route-allowed.test',
    options: { from: STRANGER },
    status: 403,
    reason: 'not-allowed',
    cluster: 'closed-route',
  },
  { what: 'an empty pool', host: 'none.test', status: 503, reason: 'no-backend', cluster: 'none' },
  {
    what: 'a backend that refuses',
    host: 'dead.test',
    status: 502,
    reason: 'connect-failed',
    cluster: 'dead',
    backend: /^127\.0\.0\.1:/,
  },
  {
    what: 'a backend that does not answer',
    host: 'slow.test',
    status: 504,
    isLate: true,
    reason: 'connect-timeout',
    cluster: 'slow',
    backend: /^127\.0\.0\.1:/,
  },
  {
    what: 'a backend that closes before it answers',
    host: 'closing.test',
    status: 502,
    isLate: true,
    reason: 'backend-reset',
    cluster: 'closing',
    backend: /^127\.0\.0\.1:/,
  },
  { what: 'no Host', says: request('GET / HTTP/1.1'), status: 400, reason: 'bad-request' },
  {
    what: 'two Hosts',
    says: request('GET / HTTP/1.1', 'Host: one.test', 'Host: one.test'),
    status: 400,
    isStrict: true,
    reason: 'bad-request',
  },
  {
    what: 'two spaces in the request line',
    says: request('GET  / HTTP/1.1', 'Host: one.test'),
    status: 400,
    isStrict: true,
    reason: 'bad-request',
    isUnreadable: true,
    isReadOver: true,
  },
  {
    what: 'two spaces before the version',
    says: request('GET /  HTTP/1.1', 'Host: one.test'),
    status: 400,
    isStrict: true,
    reason: 'bad-request',
    isUnreadable: true,
    isReadOver: true,
  },
  {
    what: 'a method that nobody knows',
    says: request('BREW / HTTP/1.1', 'Host: one.test'),
    status: 400,
    isStrict: true,
    reason: 'bad-request',
    isUnreadable: true,
  },
  {
    what: 'a bare LF',
    says: 'GET / HTTP/1.1\nHost: one.test\n\n',
    status: 400,
    isStrict: true,
    reason: 'bad-request',
    isUnreadable: true,
  },
  {
    what: 'a head that does not come to its end',
    says: 'GET / HTTP/1.1\r\nHost: one.t',
    status: 408,
    isStrict: true,
    reason: 'hello-timeout',
    isUnreadable: true,
  },
];

describe('a refusal is a status with its reason, and the end of the connection', () => {
  for (const refusal of refusals) {
    const { what, says, host = '', options, status, reason, cluster = null, backend, isUnreadable } = refusal;
    if (refusal.isStrict && !supports('strictHttp')) continue;
    const isOnlyFirst = refusal.isReadOver || (refusal.isLate && !supports('laterDialAnswers'));
    const later = isOnlyFirst ? [] : ['behind another request', 'sent ahead of its answer'];
    for (const when of ['at once', ...later]) {
      test(`${status} ${reason}: ${what}, ${when}`, async () => {
        using visitor = await client(options);
        if (when === 'behind another request') await visitor.echo('two.test');
        const counted = async () => [
          await gateway.metric('causeway_connections_total', { reason, cluster: cluster ?? '' }),
          await gateway.metric('causeway_requests_total', { code: `${status}`, cluster: cluster ?? '' }),
        ];
        const before = await counted();
        const first =
          when === 'sent ahead of its answer' ? [request('GET / HTTP/1.1', 'Host: two.test')] : [];
        visitor.send(...first, says ?? request('GET / HTTP/1.1', `Host: ${host}`));
        if (first.length > 0) assert.equal(echoOf(await visitor.answer()).backend, 'two');
        const answer = await visitor.lastAnswer();
        assert.deepEqual([answer.status, answer.headers.connection], [status, 'close']);
        assert.match(answer.body.toString(), new RegExp(`^${reason}: .+\n$`));
        const line = await lineOf(gateway, visitor);
        assert.deepEqual([line.reason, line.cluster, line.protocol], [reason, cluster, 'http']);
        assert.equal(line.route, cluster === null ? null : 'apps-http');
        if (backend === undefined) assert.equal(line.backend, null);
        else assert.match(String(line.backend), backend);
        assert.deepEqual(
          await counted(),
          before.map(count => count + 1),
        );
        const lines = await requestLines(gateway, visitor, when === 'at once' ? 1 : 2);
        assert.deepEqual([lines.at(-1)?.status, lines.at(-1)?.cluster], [status, cluster]);
        if (status === 408) assert.ok(Number(lines.at(-1)?.ms) >= HELLO_MS / 2, `${lines.at(-1)?.ms} ms`);
        // Whoever refuses it, the log has what was read.
        assert.equal(lines.at(-1)?.method, isUnreadable ? null : 'GET');
      });
    }
  }

  test('an empty line after a request is skipped (RFC 9112 2.2)', async () => {
    using visitor = await client();
    visitor.send(request('POST / HTTP/1.1', 'Host: one.test', 'Content-Length: 2'), 'ok\r\n');
    assert.equal(echoOf(await visitor.answer()).body, 'ok');
    assert.equal((await visitor.echo('one.test')).backend, 'one');
  });

  test('to HEAD has no body', async () => {
    using visitor = await client();
    visitor.send(request('HEAD / HTTP/1.1', 'Host: unknown.test'));
    assert.equal((await visitor.lastAnswer('HEAD')).status, 421);
  });

  test('requests after it are not served', async () => {
    using visitor = await client();
    const before = two.asked.length;
    visitor.ask('one.test');
    visitor.ask('unknown.test');
    visitor.ask('two.test');
    assert.equal((await visitor.answer()).status, 200);
    assert.equal((await visitor.lastAnswer()).status, 421);
    await requestLines(gateway, visitor, 2);
    assert.equal((await lineOf(gateway, visitor)).reason, 'unknown-host');
    assert.equal(two.asked.length, before);
  });

  test('requests after Connection: close are not served', async () => {
    using visitor = await client();
    const before = two.asked.length;
    visitor.ask('one.test', '/', 'Connection: close');
    visitor.ask('two.test');
    assert.equal(echoOf(await visitor.lastAnswer()).backend, 'one');
    assert.equal((await lineOf(gateway, visitor)).reason, 'done');
    assert.equal(two.asked.length, before);
  });
});

describe('counts', () => {
  test('requests by status, connections by reason, bytes as on the client side', async () => {
    await untilIdle(gateway);
    const of = (name: string, labels: Record<string, string>) => gateway.metric(`causeway_${name}`, labels);
    const read = async () => [
      await of('requests_total', { cluster: 'one', route: 'apps-http', code: '200' }),
      await of('requests_total', { cluster: '', code: '421' }),
      await of('bytes_total', { direction: 'in' }),
      await of('bytes_total', { direction: 'out' }),
      await of('connections_total', {}),
      await of('dial_seconds_count', { cluster: 'one' }),
    ];
    const before = await read();
    using visitor = await client();
    const said = [
      request('POST / HTTP/1.1', 'Host: one.test', 'Content-Length: 5'),
      'hello',
      request('GET / HTTP/1.1', 'Host: one.test'),
      request('GET / HTTP/1.1', 'Host: unknown.test'),
    ].join('');
    visitor.send(said);
    await visitor.answer('POST');
    await visitor.answer();
    await visitor.lastAnswer();
    await lineOf(gateway, visitor);
    const heard = visitor.peer.received().length;
    const after = await until('all to be counted', async () => {
      const now = await read();
      return now[4] > before[4] ? now : undefined;
    });
    assert.deepEqual(
      after.slice(0, 5).map((value, index) => value - before[index]),
      supports('httpBytes')
        ? [2, 1, said.length, heard, 1]
        : [2, 1, after[2] - before[2], after[3] - before[3], 1],
    );
    // A reused connection is not dialled.
    assert.ok(after[5] - before[5] >= 1 && after[5] - before[5] <= 2);
    await untilIdle(gateway);
  });
});

describe('log.connections', () => {
  for (const [level, expected] of [
    ['refused', ['request 400', 'connection bad-request', 'request 421', 'connection unknown-host']],
    ['none', []],
  ] as const) {
    test(`${level}`, async () => {
      await using quiet = await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
log: { connections: ${level} }
clusters: [{ name: one, apps: { hosts: [one.test], http: ["${one.text}"] } }]
`,
      });
      using visitor = await HttpClient.connect(quiet.port);
      await visitor.echo('one.test');
      visitor.ask('unknown.test');
      await visitor.lastAnswer();
      using hostless = await HttpClient.connect(quiet.port);
      hostless.send(request('GET / HTTP/1.1'));
      await hostless.lastAnswer();
      await until('all to be counted', async () => (await quiet.metric('causeway_requests_total')) === 3);
      if (level === 'refused') await lineOf(quiet, visitor);
      const lines = () =>
        quiet
          .lines()
          .filter(({ msg }) => msg === 'request' || msg === 'connection')
          .map(({ msg, status, reason }) => `${msg} ${msg === 'request' ? status : reason}`)
          .toSorted();
      await until('the lines', () => lines().length === expected.length);
      assert.deepEqual(lines(), expected.toSorted());
    });
  }
});
