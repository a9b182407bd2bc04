// `hosts: ["*"]`: one cluster gets everything that no other route matches, including TLS without SNI, and nothing
// that another route matches.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';
import { alert, Backend, bytes, connectClient, hello, lineOf, proxyV2, servedBy, visit } from './given.ts';
import { HttpBackend, HttpClient } from './http-given.ts';

const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());

const [named, rest, h2] = await Promise.all(
  ['named', 'rest', 'h2'].map(async name => stack.use(await Backend.start({ name }))),
);
const namedHttp = stack.use(await HttpBackend.start('named'));
const restHttp = stack.use(await HttpBackend.start('rest'));

const config = (all: string) => `
listen:
  - { on: "127.0.0.1:0", agents: [127.0.0.1/32] }
  - { on: "127.0.0.1:0", only: [api] }
workers: 2
clusters:
  - name: named
    id: id-1
    api: { hosts: [api.test, "*.api.test"], backends: ["${named.text}"] }
    apps: { hosts: [named.test], http: ["${namedHttp.text}"] }
  - name: rest
    ${all}
`;
const ALL = `
    routes: { h2: { hosts: ["*"], alpn: [h2], backends: ["${h2.text}"] } }
    apps: { hosts: ["*"], https: ["${rest.text}"], http: ["${restHttp.text}"] }`;

const gateway: Causeway = stack.use(await startCauseway({ config: config(ALL) }));

describe('TLS', () => {
  for (const [what, said, host] of [
    ['a server name that nobody has', hello('nobody.test'), 'nobody.test'],
    ['more labels than the wildcard has', hello('a.b.api.test'), 'a.b.api.test'],
    ['no server name', hello(''), null],
    ['an IP address for one', hello('192.0.2.1'), null],
    ['an illegal one', hello('a b.test'), null],
    ['"*" itself', hello('*'), null],
  ] as const) {
    test(`${what} goes to "*"`, async () => {
      const { received, address, since } = await withFin(said);
      assert.equal(received, 'rest');
      const line = await lineOf(gateway, { address, since });
      assert.deepEqual(
        [line.cluster, line.route, line.host, line.reason],
        ['rest', 'apps-https', host, 'done'],
      );
    });
  }

  test('ALPN selects between two routes with "*"', async () => {
    assert.equal(await servedBy(gateway.port, hello('nobody.test', 'http/1.1', 'h2')), 'h2');
    assert.equal(await servedBy(gateway.port, hello('', 'h2')), 'h2');
  });

  test('other routes keep their names, wildcards and ids', async () => {
    for (const said of [
      hello('api.test', 'h2'),
      hello('x.api.test'),
      bytes(proxyV2({ id: 'id-1' }), hello('')),
      bytes(proxyV2({ id: 'id-1' }), hello('nobody.test')),
    ])
      assert.equal(await servedBy(gateway.port, said), 'named');
  });

  test('a listener without the "*" routes refuses', async () => {
    for (const [said, reason] of [
      [hello('nobody.test'), 'unknown-host'],
      [hello(''), 'no-sni'],
    ] as const) {
      const { received, end, ...from } = await visit(gateway.ports[1], said);
      assert.deepEqual([received, end], [alert(112), 'FIN']);
      assert.equal((await lineOf(gateway, from)).reason, reason);
    }
  });

  if (supports('connect'))
    test('an unknown CONNECT name does not go to "*"', async () => {
      const { received } = await visit(gateway.port, 'CONNECT nobody.test:443 HTTP/1.1\r\n\r\n');
      assert.match(received.toString('latin1'), /^HTTP\/1\.1 404 /);
    });
});

describe('HTTP', () => {
  test('an unknown Host goes to "*", also an IP address', async () => {
    using visitor = await HttpClient.connect(gateway.port);
    for (const [host, backend] of [
      ['named.test', 'named'],
      ['nobody.test', 'rest'],
      ['192.0.2.1:8080', 'rest'],
      ['[2001:db8::1]', 'rest'],
      ['api.test', 'rest'],
    ])
      assert.equal((await visitor.echo(host)).backend, backend, host);
  });

  test('a request without a Host is still malformed', async () => {
    using visitor = await HttpClient.connect(gateway.port);
    visitor.send('GET / HTTP/1.1\r\n\r\n');
    assert.equal((await visitor.lastAnswer()).status, 400);
  });

  test('a listener without it refuses', async () => {
    using visitor = await HttpClient.connect(gateway.ports[1]);
    assert.equal((await visitor.get('nobody.test')).status, 421);
  });
});

test('"*" is added and removed by an edit', async () => {
  await gateway.write(config('apps: { hosts: [rest.test], https: [] }'));
  await gateway.line(({ msg, generation }) => msg === 'applied' && generation === 2);
  assert.deepEqual((await visit(gateway.port, hello(''))).received, alert(112));
  await gateway.write(config(ALL));
  await gateway.line(({ msg, generation }) => msg === 'applied' && generation === 3);
  assert.equal(await servedBy(gateway.port, hello('')), 'rest');
});

async function withFin(said: Uint8Array) {
  using client = await connectClient(gateway.port);
  client.send(said);
  const heard = await client.receives('\n');
  client.finish();
  assert.equal(await client.untilEnd(), 'FIN');
  return { received: heard.toString('latin1').trimEnd(), address: client.address, since: client.since };
}
