// `causeway render haproxy` in a real HAProxy, 2.6 and 3.0: each way in leads where our own gateway would send it.
// Loopback addresses stand for the parties.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { readConfig } from '../../src/config/read-config.ts';
import { readHaproxyVersion } from '../../src/haproxy/haproxy-version.ts';
import { renderHaproxy } from '../../src/haproxy/render-haproxy.ts';
import { parseProxyHeader } from '../../src/wire/proxy-protocol.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Haproxy, startHaproxy } from '../../testbed/start-haproxy.ts';
import {
  Backend,
  bytes,
  type ClientOptions,
  connectClient,
  hello,
  proxyV2,
  servedBy,
  visit,
} from '../features/given.ts';
import { HttpBackend, HttpClient } from '../features/http-given.ts';

const AGENT = '127.0.0.2';
const BALANCER = '127.0.0.3';
/** The only client that the guarded route allows. */
const FRIEND = '127.0.0.9';
/** As a balancer's header or an agent's tells it. */
const ELSEWHERE = '192.0.2.7';

const skip = missingPrograms('haproxy', 'debootstrap');

/** `haproxy -v` of each is in the log of the test bed. */
const versions = [
  { version: '2.6', idTlv: 0x05 },
  { version: '3.0', idTlv: 0x20 },
] as const;

for (const { version, idTlv } of versions) {
  describe(`causeway render haproxy, in HAProxy ${version}`, { skip }, () => {
    const stack = new AsyncDisposableStack();
    const pools: Record<string, Backend> = {};
    const web: Record<string, HttpBackend> = {};
    const ports: Record<string, number> = {};
    let proxy: Haproxy;

    before(async () => {
      for (const name of [
        'a-api',
        'a-konnectivity',
        'a-https',
        'a-proto',
        'a-guarded',
        'a-v2',
        'b-api',
        'b-rest',
      ])
        pools[name] = stack.use(await Backend.start({ name }));
      for (const name of ['a-http', 'b-http']) web[name] = stack.use(await HttpBackend.start(name));
      for (const name of ['all', 'api', 'balanced', 'rest', 'nobody']) ports[name] = await freePort();
      proxy = stack.use(await startRendered());
    });
    after(() => stack.disposeAsync());

    const pool = (name: string, more = '') =>
      `{ backends: ["${pools[name].text}"], health: { check: none }${more} }`;

    function startRendered(): Promise<Haproxy> {
      const route = (host: string, name: string, more = '') =>
        `{ hosts: ["${host}"], backends: ["${pools[name].text}"], health: { check: none }${more} }`;
      const yaml = `
listen:
  - { on: "127.0.0.1:${ports.all}", agents: [${AGENT}/32], idTlv: [0x20, 0x05] }
  - { on: "127.0.0.1:${ports.api}", only: [api] }
  - { on: "127.0.0.1:${ports.balanced}", balancers: [${BALANCER}/32] }
timeouts: { hello: 1s }
clusters:
  - name: a
    id: id-a
    api: ${route('api.a.test', 'a-api')}
    konnectivity: ${route('k.a.test', 'a-konnectivity')}
    apps:
      hosts: ["*.apps.a.test", "web.a.test"]
      https: ${pool('a-https')}
      http: { backends: ["${web['a-http'].text}"] }
    routes:
      proto: ${route('api.a.test', 'a-proto', ', alpn: [my-proto]')}
      guarded: ${route('guarded.a.test', 'a-guarded', `, allow: [${FRIEND}/32, ${ELSEWHERE}/32]`)}
      v2: ${route('v2.a.test', 'a-v2', ', proxyProtocol: v2')}
  - name: b
    id: id-b
    api: { hosts: [api.b.test, x.apps.a.test], ${pool('b-api').slice(1)}
    apps: { hosts: [web.b.test], http: { backends: ["${web['b-http'].text}"] } }
  - name: c
    apps: { hosts: [old.c.test], http: redirect }
`;
      return start(yaml);
    }

    function start(yaml: string): Promise<Haproxy> {
      const read = readConfig(yaml, 'causeway.yaml');
      if (!read.ok) assert.fail(JSON.stringify(read.mistakes));
      const rendered = renderHaproxy(
        read.config,
        'causeway.yaml',
        readHaproxyVersion(version) ?? assert.fail(),
      );
      return startHaproxy({ config: rendered, ...(version === '3.0' && { version }) });
    }

    const isRefused = async (port: number, said: Uint8Array, options?: ClientOptions) => {
      const { received } = await visit(port, said, options);
      assert.equal(received.toString('latin1'), '');
    };

    const hosts: readonly [host: string, pool: string][] = [
      ['api.a.test', 'a-api'],
      ['API.A.Test', 'a-api'],
      ['api.a.test.', 'a-api'],
      ['k.a.test', 'a-konnectivity'],
      ['y.apps.a.test', 'a-https'],
      ['Y.Apps.A.test', 'a-https'],
      ['x.apps.a.test', 'b-api'],
      ['api.b.test', 'b-api'],
    ];
    for (const [host, name] of hosts) {
      test(`the server name ${host} leads to ${name}`, async () => {
        assert.equal(await servedBy(ports.all, hello(host)), name);
      });
    }

    for (const host of [
      'other.test',
      'apps.a.test',
      'z.y.apps.a.test',
      'api.a.test.evil.test',
      '',
      '192.0.2.1',
    ]) {
      test(`the server name '${host}' is refused`, () => isRefused(ports.all, hello(host)));
    }

    test('a hello may come byte by byte', async () => {
      using client = await connectClient(ports.all);
      await client.drip(hello('api.a.test'));
      await client.receives('a-api\n');
    });

    test('bytes that are neither TLS nor HTTP are refused', () =>
      isRefused(ports.all, bytes('\x00\x01\x02\x03')));

    test('ALPN chooses among the routes of a host', async () => {
      assert.equal(await servedBy(ports.all, hello('api.a.test', 'h2', 'my-proto')), 'a-proto');
      assert.equal(await servedBy(ports.all, hello('api.a.test', 'h2', 'not-my-proto')), 'a-api');
    });

    test('only leaves other routes out', async () => {
      assert.equal(await servedBy(ports.api, hello('api.a.test')), 'a-api');
      await isRefused(ports.api, hello('k.a.test'));
      await isRefused(ports.api, bytes('GET / HTTP/1.1\r\nHost: web.a.test\r\n\r\n'));
    });

    test('an allow list is matched on the client', async () => {
      await isRefused(ports.all, hello('guarded.a.test'));
      assert.equal(await servedBy(ports.all, hello('guarded.a.test'), { from: FRIEND }), 'a-guarded');
      const header = proxyV2({ source: ELSEWHERE });
      assert.equal(
        await servedBy(ports.balanced, bytes(header, hello('guarded.a.test')), { from: BALANCER }),
        'a-guarded',
      );
      // An agent's header does not make it another client.
      await isRefused(ports.all, bytes(header, hello('guarded.a.test')), { from: AGENT });
    });

    const withId = (id: string, host: string) =>
      bytes(proxyV2({ source: ELSEWHERE, tlvs: [[idTlv, id]] }), hello(host));

    for (const [id, host, name] of [
      ['id-a', '', 'a-api'],
      ['id-a', 'kubernetes.default.svc', 'a-api'],
      ['id-a', 'k.a.test', 'a-konnectivity'],
      ['id-a', 'y.apps.a.test', 'a-https'],
      ['id-a', 'api.b.test', 'a-api'],
      ['id-b', '', 'b-api'],
    ] as const) {
      test(`an agent's id ${id} and the server name '${host}' lead to ${name}`, async () => {
        assert.equal(await servedBy(ports.all, withId(id, host), { from: AGENT }), name);
      });
    }

    test("an agent's header without an id leaves routing to the server name", async () => {
      const said = bytes(proxyV2({ source: ELSEWHERE }), hello('k.a.test'));
      assert.equal(await servedBy(ports.all, said, { from: AGENT }), 'a-konnectivity');
    });

    test('unknown ids are refused, and harm nobody', async () => {
      for (let i = 0; i < 100; i++)
        await isRefused(ports.all, withId(`nobody-${i}`, 'api.a.test'), { from: AGENT });
      assert.equal(await servedBy(ports.all, withId('id-a', ''), { from: AGENT }), 'a-api');
      assert.match(await proxy.runtime('show info'), /Uptime/);
    });

    test('a PROXY header from anyone else is refused', async () => {
      const { received } = await visit(ports.all, withId('id-a', ''));
      assert.equal(received.toString('latin1'), '');
    });

    test('the backend gets a PROXY v2 header with the client', async () => {
      const sourceOf = async (said: Uint8Array, from: string) => {
        const index = pools['a-v2'].connections.length;
        await servedBy(ports.all, said, { from });
        const parsed = parseProxyHeader((await pools['a-v2'].accepted(index)).received());
        return parsed.kind === 'found' && [...(parsed.value.source?.address ?? [])].join('.');
      };
      assert.equal(await sourceOf(hello('v2.a.test'), FRIEND), FRIEND);
      assert.equal(await sourceOf(withId('id-a', 'v2.a.test'), AGENT), AGENT);
    });

    test('each request of one connection is routed by its Host', async () => {
      using client = await HttpClient.connect(ports.all);
      for (const [host, name] of [
        ['web.a.test', 'a-http'],
        ['WEB.b.test:8080', 'b-http'],
        ['y.apps.a.test', 'a-http'],
      ]) {
        client.ask(
          host,
          '/path',
          'X-Forwarded-For: 1.2.3.4',
          'X-Forwarded-Port: 1',
          'X_Forwarded_For: 1.2.3.4',
          'Forwarded: for=1.2.3.4',
        );
        const { status, body } = await client.answer();
        const echo = JSON.parse(body.toString());
        assert.deepEqual([status, echo.backend, echo.url], [200, name, '/path']);
        assert.equal(echo.headers['x-forwarded-for'], '127.0.0.1');
        assert.equal(echo.headers['x-forwarded-host'], host);
        for (const name of ['x-forwarded-port', 'x_forwarded_for', 'forwarded'])
          assert.equal(echo.headers[name], undefined, name);
      }
    });

    test('requests that no route has are answered', async () => {
      const status = async (said: string) => {
        const { received } = await visit(ports.all, bytes(said));
        return Number(/^HTTP\/1\.\d (\d{3})/.exec(received.toString('latin1'))?.[1]);
      };
      const close = 'Connection: close\r\n\r\n';
      assert.equal(await status(`GET / HTTP/1.1\r\nHost: other.test\r\n${close}`), 421);
      assert.equal(await status(`GET / HTTP/1.1\r\n${close}`), 400);
      assert.equal(await status(`GET / HTTP/1.1\r\nHost: web.a.test\r\nHost: web.b.test\r\n${close}`), 400);
      assert.equal(await status(`CONNECT api.a.test:443 HTTP/1.1\r\nHost: api.a.test:443\r\n${close}`), 403);
    });

    test('a redirect keeps path and port, unless it is 80', async () => {
      using client = await HttpClient.connect(ports.all);
      for (const [host, location] of [
        ['old.c.test', 'https://old.c.test/a?b'],
        ['old.c.test:80', 'https://old.c.test/a?b'],
        ['old.c.test:8080', 'https://old.c.test:8080/a?b'],
      ]) {
        client.ask(host, '/a?b');
        const { status, headers } = await client.answer();
        assert.deepEqual([status, headers.location], [308, location]);
      }
    });

    test('* takes what nobody else has, and TLS without a server name', async () => {
      await using other = await start(`
listen: ["127.0.0.1:${ports.rest}"]
clusters:
  - { name: a, api: { hosts: [api.a.test], ${pool('a-api').slice(1)} }
  - { name: b, apps: { hosts: ["*"], https: ${pool('b-rest')} } }
`);
      for (const host of ['', 'other.test', '192.0.2.1'])
        assert.equal(await servedBy(ports.rest, hello(host)), 'b-rest');
      assert.equal(await servedBy(ports.rest, hello('api.a.test')), 'a-api');
      assert.match(await other.runtime('show info'), /Uptime/);
    });

    test('while every server is down, all of them are tried', async () => {
      await using other = await start(`
listen: ["127.0.0.1:${ports.nobody}"]
clusters: [{ name: a, api: { hosts: [api.a.test], backends: ["${pools['a-api'].text}"], health: { check: https, every: 50ms, rise: 1, fall: 1 } } }]
`);
      // It answers no request, so its check fails.
      while (!/be_a_api,s1,.*,DOWN,/.test(await other.runtime('show stat')));
      assert.equal(await servedBy(ports.nobody, hello('api.a.test')), 'a-api');
    });
  });
}
