import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { certificateFor } from '../../../testbed/certificates.ts';
import { freePort } from '../../../testbed/free-port.ts';
import { missingPrograms } from '../../../testbed/packages.ts';
import { startHaproxy } from '../../../testbed/start-haproxy.ts';
import { startNginx } from '../../../testbed/start-nginx.ts';
import { startOpensslServer } from '../../../testbed/start-openssl-server.ts';
import type { Health } from '../../cluster/cluster.ts';
import { buildProxyV2, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { checkBackend } from './check-backend.ts';
import type { HealthTarget } from './health-target.ts';

/** For checks that succeed or are refused: never reached. */
const WAIT_MS = 10_000;
/** For checks that time out. */
const SHORT_MS = 200;

type Given = Partial<Omit<HealthTarget, 'health'>> & { readonly health?: Partial<Health> };

function targetOf(port: number, check: Health['check'], { health, ...rest }: Given = {}): HealthTarget {
  return {
    slot: 1,
    addresses: ['127.0.0.1'],
    isPending: false,
    port,
    health: { check, everyMs: 1000, timeoutMs: WAIT_MS, rise: 1, fall: 1, ...health },
    host: 'backend.test',
    proxyProtocol: 'none',
    ...rest,
  };
}

async function check(
  port: number,
  kind: Health['check'],
  given?: Given,
): Promise<[boolean | undefined, string]> {
  const { ok, why } = await checkBackend(targetOf(port, kind, given), 0);
  return [ok, why];
}

async function listening(
  server: Server,
  host = '127.0.0.1',
): Promise<AsyncDisposable & { readonly port: number }> {
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket.on('error', () => {}));
  });
  server.listen(0, host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A server that calls `each` with every connection. */
function plain(each: (socket: Socket) => void): Promise<AsyncDisposable & { readonly port: number }> {
  return listening(createServer({ allowHalfOpen: true }, each));
}

/** A server that responds with that status and collects the requests. */
async function http(status: number, asked: IncomingMessage[] = [], body = '') {
  return listening(
    createHttpServer((request, response) => {
      asked.push(request);
      response.writeHead(status).end(body);
    }),
  );
}

const skip = missingPrograms('openssl');
const tlsFiles = async () => {
  const { certFile, keyFile } = await certificateFor('backend.test');
  return { cert: await readFile(certFile), key: await readFile(keyFile) };
};

const silent = () => plain(() => {});

describe('checkBackend() tcp', () => {
  test('needs only a connection, even if the server never sends anything', async () => {
    await using server = await silent();
    assert.deepEqual(await check(server.port, 'tcp'), [true, 'connected']);
  });

  test('reports a refused connection', async () => {
    assert.deepEqual(await check(await freePort(), 'tcp'), [false, 'connection refused']);
  });

  test('tries every address of a name, the last good one first, and reports which one answered', async () => {
    await using server = await silent();
    const target = targetOf(server.port, 'tcp', { addresses: ['127.0.0.2', '127.0.0.1', '127.0.0.3'] });
    assert.deepEqual(await checkBackend(target, 0), { ok: true, why: 'connected', preferred: 1 });
    assert.deepEqual(await checkBackend(target, 2), { ok: true, why: 'connected', preferred: 1 });
    const none = { ...target, addresses: ['127.0.0.2', '127.0.0.3'] };
    assert.deepEqual(await checkBackend(none, 1), { ok: false, why: 'connection refused', preferred: 0 });
  });

  test('fails for a name without an address', async () => {
    assert.deepEqual(await check(1, 'tcp', { addresses: [] }), [false, 'name not found']);
    const pending = { addresses: [], isPending: true };
    assert.deepEqual(await check(1, 'tcp', pending), [undefined, 'name not looked up yet']);
  });
});

describe('checkBackend() tls', { skip }, () => {
  test('completes a handshake without verifying the certificate, and sends the server name', async () => {
    const names: (string | false | null)[] = [];
    const errors: Error[] = [];
    const server = createTlsServer(await tlsFiles());
    server.on('secureConnection', (socket: TLSSocket) => {
      names.push(socket.servername);
      socket.on('error', error => errors.push(error));
    });
    server.on('tlsClientError', error => errors.push(error));
    await using it = await listening(server);
    assert.deepEqual(await check(it.port, 'tls', { serverName: 'api.a.test' }), [true, 'TLS handshake done']);
    assert.deepEqual(await check(it.port, 'tls'), [true, 'TLS handshake done']);
    assert.deepEqual(errors, [], 'The server has no error to log');
    assert.deepEqual(names, ['api.a.test', false]);
  });

  for (const version of ['-tls1', '-tls1_2', '-tls1_3']) {
    test(`completes a handshake with openssl s_server ${version}`, async () => {
      await using server = await startOpensslServer({
        ...(await certificateFor('backend.test')),
        flags: [version, ...(version === '-tls1' ? ['-cipher', 'ALL:@SECLEVEL=0'] : [])],
      });
      assert.deepEqual(await check(server.port, 'tls'), [true, 'TLS handshake done']);
    });
  }

  test('accepts an alert as an answer: openssl s_server that does not know the name', async () => {
    const { certFile, keyFile } = await certificateFor('other.test');
    await using server = await startOpensslServer({
      certFile,
      keyFile,
      flags: ['-servername', 'other.test', '-cert2', certFile, '-key2', keyFile, '-servername_fatal'],
    });
    assert.deepEqual(await check(server.port, 'tls', { serverName: 'api.a.test' }), [true, 'TLS alert 112']);
    assert.deepEqual(await check(server.port, 'tls', { serverName: 'other.test' }), [
      true,
      'TLS handshake done',
    ]);
  });

  test('accepts the bytes of an alert as an answer', async () => {
    await using server = await plain(socket => {
      socket.once('data', () => socket.end(Buffer.from([0x15, 3, 1, 0, 2, 2, 112])));
    });
    assert.deepEqual(await check(server.port, 'tls'), [true, 'TLS alert 112']);
  });

  test('counts a server that wants a client certificate as up', async () => {
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const server = createTlsServer({
        ...(await tlsFiles()),
        requestCert: true,
        minVersion: version,
        maxVersion: version,
      });
      server.on('tlsClientError', () => {});
      await using it = await listening(server);
      assert.equal((await check(it.port, 'tls'))[0], true, version);
    }
  });

  test('fails when the server accepts and never answers', async () => {
    await using server = await silent();
    assert.deepEqual(await check(server.port, 'tls', { health: { timeoutMs: SHORT_MS } }), [
      false,
      'no TLS handshake within 200ms',
    ]);
  });

  test('fails when the server closes, resets or speaks another protocol', async () => {
    for (const [each, why] of [
      [(socket: Socket) => socket.end(), 'connection closed, no TLS handshake'],
      [
        (socket: Socket) => socket.once('data', () => socket.resetAndDestroy()),
        'connection closed, no TLS handshake',
      ],
      [(socket: Socket) => socket.end('HTTP/1.0 400 Bad Request\r\n\r\n'), 'the answer is not TLS'],
    ] as const) {
      await using server = await plain(socket => void each(socket));
      assert.deepEqual(await check(server.port, 'tls'), [false, why]);
    }
  });

  test('fails when it cannot connect', async () => {
    assert.deepEqual(await check(await freePort(), 'tls'), [false, 'connection refused']);
  });
});

describe('checkBackend() http', () => {
  test('counts any response as up without a path', async () => {
    for (const status of [200, 404, 500, 503]) {
      await using server = await http(status);
      assert.deepEqual(await check(server.port, 'http'), [true, `HTTP ${status}`]);
    }
  });

  test('judges the status when a path is given: 2xx, 3xx, 401 and 403 are up', async () => {
    for (const [status, up] of [
      [200, true],
      [204, true],
      [302, true],
      [400, false],
      [401, true],
      [403, true],
      [404, false],
      [500, false],
    ] as const) {
      await using server = await http(status);
      const result = await check(server.port, 'http', { health: { path: '/readyz' } });
      assert.deepEqual(result, [up, `HTTP ${status}`]);
    }
  });

  test('sends the path and the host', async () => {
    const asked: IncomingMessage[] = [];
    await using server = await http(200, asked);
    await check(server.port, 'http', { health: { path: '/readyz?verbose' }, host: 'app.a.test' });
    await check(server.port, 'http');
    assert.deepEqual(
      asked.map(({ method, url, headers }) => [method, url, headers.host, headers['user-agent']]),
      [
        ['GET', '/readyz?verbose', 'app.a.test', 'causeway-health'],
        ['GET', '/', 'backend.test', 'causeway-health'],
      ],
    );
  });

  test('does not read the body', async () => {
    let sent = 0;
    let closed: Promise<unknown> = Promise.resolve();
    await using server = await listening(
      createHttpServer((_, response) => {
        const piece = Buffer.alloc(64 * 1024);
        const more = () => {
          while (!response.destroyed && response.write(piece)) sent += piece.length;
        };
        closed = once(response, 'close');
        response.on('drain', more);
        more();
      }),
    );
    assert.deepEqual(await check(server.port, 'http'), [true, 'HTTP 200']);
    await closed;
    // At most what the kernel's buffers hold, not an endless stream.
    assert.ok(sent < 32 * 1024 * 1024, `${sent} bytes`);
  });

  test('fails when there is no response, an endless head, or another protocol', async () => {
    for (const [each, why] of [
      [(socket: Socket) => socket.resume().end(), 'connection closed, no HTTP answer'],
      [(socket: Socket) => socket.end('220 mail.test ESMTP\r\n'), 'the answer is not HTTP'],
      [
        (socket: Socket) => socket.end(`HTTP/1.1 200 OK\r\nA: ${'a'.repeat(100_000)}\r\n\r\n`),
        'the answer is not HTTP',
      ],
    ] as const) {
      await using server = await plain(socket => void each(socket));
      assert.deepEqual(await check(server.port, 'http'), [false, why]);
    }
    await using server = await silent();
    assert.deepEqual(await check(server.port, 'http', { health: { timeoutMs: SHORT_MS } }), [
      false,
      'no HTTP answer within 200ms',
    ]);
  });
});

describe('checkBackend() https', { skip }, () => {
  async function https(status: number, asked: IncomingMessage[] = []) {
    const server = createHttpsServer(await tlsFiles(), (request, response) => {
      asked.push(request);
      response.writeHead(status).end();
    });
    server.on('tlsClientError', () => {});
    return listening(server);
  }

  test('judges the status, with or without a path', async () => {
    for (const [status, up] of [
      [200, true],
      [301, true],
      [401, true],
      [403, true],
      [404, false],
      [500, false],
      [503, false],
    ] as const) {
      await using server = await https(status);
      assert.deepEqual(await check(server.port, 'https'), [up, `HTTP ${status}`]);
    }
  });

  test('sends the server name in TLS and in the request', async () => {
    const asked: IncomingMessage[] = [];
    await using server = await https(200, asked);
    const given = { health: { path: '/healthz' }, serverName: 'api.a.test', host: 'api.a.test' };
    assert.deepEqual(await check(server.port, 'https', given), [true, 'HTTP 200']);
    const [{ url, headers, socket }] = asked;
    assert.deepEqual(
      [url, headers.host, (socket as TLSSocket).servername],
      ['/healthz', 'api.a.test', 'api.a.test'],
    );
  });

  test('does not accept an alert as an answer', async () => {
    await using server = await plain(socket => {
      socket.once('data', () => socket.end(Buffer.from([0x15, 3, 1, 0, 2, 2, 112])));
    });
    assert.deepEqual(await check(server.port, 'https'), [false, 'TLS alert 112']);
  });
});

describe('checkBackend() with a PROXY header', () => {
  for (const [proxyProtocol, expected] of [
    ['v1', Buffer.from('PROXY UNKNOWN\r\n')],
    ['v2', Buffer.from(buildProxyV2({}))],
  ] as const) {
    test(`sends ${proxyProtocol} first, as LOCAL or UNKNOWN`, async () => {
      for (const kind of ['tcp', 'tls', 'http'] as const) {
        const { promise, resolve } = Promise.withResolvers<Buffer>();
        await using server = await plain(socket => {
          let received = Buffer.alloc(0);
          socket.on('data', (chunk: Buffer) => {
            received = Buffer.concat([received, chunk]);
            if (received.length >= expected.length + (kind === 'tcp' ? 0 : 5)) resolve(received);
          });
        });
        const checked = check(server.port, kind, { proxyProtocol, health: { timeoutMs: 1000 } });
        const received = await promise;
        const parsed = parseProxyHeader(received, 0, received.length);
        assert.ok(parsed.kind === 'found' && parsed.value.command === 'local');
        assert.deepEqual(received.subarray(0, expected.length), expected);
        const rest = received.subarray(expected.length);
        if (kind === 'tcp') assert.equal(rest.length, 0);
        if (kind === 'tls') assert.equal(rest[0], 0x16, 'a handshake record');
        if (kind === 'http') assert.match(rest.toString(), /^GET /);
        await checked;
      }
    });
  }

  test('is understood by HAProxy and nginx', {
    skip: missingPrograms('openssl', 'haproxy', 'nginx'),
  }, async () => {
    const { bundleFile, certFile, keyFile } = await certificateFor('backend.test');
    const [haproxyPort, nginxPort] = [await freePort(), await freePort()];
    await using _haproxy = await startHaproxy({
      config: `
defaults
  mode http
  timeout client 5s
frontend f
  bind 127.0.0.1:${haproxyPort} accept-proxy ssl crt ${bundleFile}
  http-request return status 200
`,
    });
    await using _nginx = await startNginx({
      http: `server {
  listen 127.0.0.1:${nginxPort} ssl proxy_protocol;
  ssl_certificate ${certFile};
  ssl_certificate_key ${keyFile};
  location = /readyz { return 204; }
  location / { return 404; }
}`,
    });
    for (const proxyProtocol of ['v1', 'v2'] as const) {
      for (const port of [haproxyPort, nginxPort]) {
        assert.deepEqual(await check(port, 'tls', { proxyProtocol }), [true, 'TLS handshake done']);
      }
      assert.deepEqual(await check(haproxyPort, 'https', { proxyProtocol }), [true, 'HTTP 200']);
      const given = { proxyProtocol, health: { path: '/readyz' } };
      assert.deepEqual(await check(nginxPort, 'https', given), [true, 'HTTP 204']);
      assert.deepEqual(await check(nginxPort, 'https', { proxyProtocol }), [false, 'HTTP 404']);
    }
    // Without the header HAProxy does not answer the handshake.
    assert.equal((await check(haproxyPort, 'tls', { health: { timeoutMs: 1000 } }))[0], false);
  });
});
