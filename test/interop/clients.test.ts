// Third-party TLS clients, each with its own form of hello, on one port: they reach the cluster they name, whose
// certificate they verify, or report the alert of a refusal.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { curlClient } from '../../testbed/curl-client.ts';
import { freePort } from '../../testbed/free-port.ts';
import { gnutlsClient } from '../../testbed/gnutls-client.ts';
import { goClient } from '../../testbed/go-client.ts';
import { type GoServer, startGoServer } from '../../testbed/go-peer.ts';
import { javaClient } from '../../testbed/java-client.ts';
import { opensslClient } from '../../testbed/openssl-client.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startNginx } from '../../testbed/start-nginx.ts';
import type { TlsClientOptions, TlsClientReport } from '../../testbed/tls-client.ts';

const ONE = 'api.one.test';
const TWO = 'api.two.test';
const GET = 'GET / HTTP/1.0\r\n\r\n';
const PING = 'ping through the gateway\n';

interface Client {
  readonly needs: readonly string[];
  visit(options: TlsClientOptions): Promise<TlsClientReport>;
}

/** Requests a page; curl does that on its own. */
const clients: Record<string, Client> = {
  openssl: { needs: ['openssl'], visit: opensslClient },
  'gnutls-cli': { needs: ['gnutls-cli'], visit: gnutlsClient },
  Go: { needs: ['go'], visit: goClient },
  Java: { needs: ['java', 'javac'], visit: javaClient },
  curl: {
    needs: ['curl'],
    visit: ({ connect, serverName, ca }) =>
      curlClient({ url: `https://${serverName ?? connect}/`, connect, ...(ca !== undefined && { ca }) }),
  },
};

const skip = missingPrograms('openssl', 'nginx', 'go');
const stack = new AsyncDisposableStack();
let ca: string;
let config: string;
let special: GoServer;

before(async () => {
  if (skip) return;
  ({ certFile: ca } = await authority());
  const [one, two] = [await freePort(), await freePort()];
  stack.use(
    await startNginx({
      http: `${await pageOf('one', one, ONE)}\n${await pageOf('two', two, TWO, '*.two.test')}`,
    }),
  );
  special = stack.use(await startGoServer({ ...(await certificateFor(TWO)), alpn: ['my-proto'] }));
  config = `
listen: [":0"]
clusters:
  - { name: one, api: { hosts: [${ONE}], backends: ["127.0.0.1:${one}"] } }
  - name: two
    api: { hosts: [${TWO}, "*.two.test"], backends: ["127.0.0.1:${two}"] }
    routes:
      special: { hosts: [${TWO}], alpn: [my-proto], backends: ["127.0.0.1:${special.port}"] }
  - { name: guarded, allow: [10.0.0.0/8], api: { hosts: [guarded.test], backends: ["127.0.0.1:${one}"] } }
  - { name: empty, api: { hosts: [empty.test], backends: [] } }
`;
});

after(() => stack.disposeAsync());

/** An nginx server that reports its cluster and the requested name. */
async function pageOf(
  cluster: string,
  port: number,
  ...hosts: readonly [string, ...string[]]
): Promise<string> {
  const { certFile, keyFile } = await certificateFor(...hosts);
  return `server {
    listen 127.0.0.1:${port} ssl;
    ssl_certificate ${certFile};
    ssl_certificate_key ${keyFile};
    location / { return 200 "cluster ${cluster} as $ssl_server_name"; }
  }`;
}

for (const [name, { needs, visit }] of Object.entries(clients)) {
  describe(`${name} as a client`, { skip: skip || missingPrograms(...needs) }, () => {
    let gateway: Causeway;
    let connect: string;
    before(async () => {
      gateway = await startCauseway({ config });
      connect = `127.0.0.1:${gateway.port}`;
    });
    after(() => gateway?.[Symbol.asyncDispose]());

    for (const [cluster, host] of [
      ['one', ONE],
      ['two', TWO],
      ['two', 'any.two.test'],
    ] as const) {
      test(`reaches cluster ${cluster} as ${host} and trusts its certificate`, async () => {
        const report = await visit({ connect, serverName: host, input: GET, ca });
        assert.ok(report.handshake, report.printed);
        assert.match(report.answer.toString(), new RegExp(`cluster ${cluster} as ${host}$`));
        const line = await gateway.line(entry => entry.msg === 'connection' && entry.host === host);
        assert.deepEqual([line.protocol, line.cluster, line.route], ['tls', cluster, 'api']);
        // Either side may reset after the last byte.
        assert.match(String(line.reason), /^(done|client-reset|backend-reset)$/);
      });
    }

    // Alert names of the clients are mapped back to numbers.
    for (const [reason, alert, host] of [
      ['unknown-host', 112, 'nobody.test'],
      ['no-sni', 112, undefined],
      ['not-allowed', 49, 'guarded.test'],
      ['no-backend', 80, 'empty.test'],
    ] as const) {
      test(`sees alert ${alert} for ${reason}`, async () => {
        const report = await visit({
          connect,
          input: GET,
          ca,
          ...(host !== undefined && { serverName: host }),
        });
        assert.deepEqual([report.handshake, report.alert], [false, alert], report.printed);
        assert.equal(report.answer.length, 0);
        const line = await gateway.line(entry => entry.reason === reason);
        assert.deepEqual([line.protocol, line.host, line.out], ['tls', host ?? null, 7]);
      });
    }

    test('connects by IPv6 too', async () => {
      const report = await visit({ connect: `[::1]:${gateway.port}`, serverName: ONE, input: GET, ca });
      assert.match(report.answer.toString(), /cluster one/, report.printed);
      await gateway.line(entry => String(entry.client).startsWith('[::1]:'));
    });
  });
}

describe('ALPN', { skip }, () => {
  let gateway: Causeway;
  before(async () => {
    gateway = await startCauseway({ config });
  });
  after(() => gateway?.[Symbol.asyncDispose]());

  for (const name of ['openssl', 'Go', 'gnutls-cli'] as const) {
    test(`${name} reaches the route of the protocol that it offers`, {
      skip: missingPrograms(...clients[name].needs),
    }, async () => {
      const before = special.reports().length;
      const common = { connect: `127.0.0.1:${gateway.port}`, serverName: TWO, ca };
      const chosen = await clients[name].visit({
        ...common,
        alpn: ['other', 'my-proto'],
        input: PING,
        answerBytes: PING.length,
      });
      assert.equal(chosen.answer.toString(), PING, chosen.printed);
      await special.logged(new RegExp(`(?:^\\{.*\\}\\s+){${before + 1}}`, 'm'));
      assert.deepEqual(
        special
          .reports()
          .map(({ alpn }) => alpn)
          .slice(before),
        ['my-proto'],
      );
      const usual = await clients[name].visit({ ...common, alpn: ['http/1.1'], input: GET });
      assert.match(usual.answer.toString(), /cluster two/, usual.printed);
    });
  }
});

test('the hello of a current Go, with its post-quantum share, exceeds a segment of 1,460 bytes', {
  skip,
}, async () => {
  await using gateway = await startCauseway({ config });
  const report = await goClient({
    connect: `127.0.0.1:${gateway.port}`,
    serverName: TWO,
    alpn: ['my-proto'],
    ca,
    size: 1,
    halfClose: true,
  });
  assert.deepEqual([report.curve, report.error], ['X25519MLKEM768', '']);
  const line = await gateway.line(entry => entry.msg === 'connection');
  assert.ok((line.in as number) > 1460, JSON.stringify(line));
});
