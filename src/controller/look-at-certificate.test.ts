import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { after, test } from 'node:test';
import { createServer } from 'node:tls';
import { certificateFor, expiredCertificate } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { startOpensslServer } from '../../testbed/start-openssl-server.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { lookAtCertificate } from './look-at-certificate.ts';

const skip = missingPrograms('openssl');
const servers: Server[] = [];
after(() => {
  for (const server of servers) server.close();
});

async function listening(server: Server): Promise<number> {
  servers.push(server);
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const look = (port: number, names: readonly string[], limitMs = 5000) =>
  lookAtCertificate({ host: '127.0.0.1', port, serverName: names[0], names }, AbortSignal.timeout(limitMs));

test('lookAtCertificate() compares names as clients do', { skip }, async () => {
  // The first is also the common name, which has no meaning beside SANs.
  const { certFile, keyFile } = await certificateFor(
    'api.a.lab',
    '*.b.lab',
    'f*.c.lab',
    '10.0.0.1',
    'kubernetes',
  );
  await using server = await startOpensslServer({ certFile, keyFile });
  const covered = ['api.a.lab', 'API.a.lab', 'x.b.lab', '*.b.lab', 'kubernetes'];
  const missing = [
    'a.lab',
    'x.api.a.lab',
    'b.lab',
    'y.x.b.lab',
    'foo.c.lab',
    '10.0.0.1',
    'kubernetes.default.svc',
  ];
  const seen = await look(server.port, [...covered, ...missing]);
  assert.deepEqual(seen?.covered, covered);
  assert.ok(seen.notAfter > Date.now());
});

/** A self-signed certificate with this extension. */
async function certificateWith(subjectAltName: string) {
  await using dir = await tempDir();
  const [certFile, keyFile] = [dir.file('crt'), dir.file('key')];
  const args = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=x.lab'];
  const out = ['-keyout', keyFile, '-out', certFile, '-addext', `subjectAltName=${subjectAltName}`];
  const { code, stderr } = await run('openssl', ['req', '-x509', ...args, ...out]);
  assert.equal(code, 0, stderr);
  return { cert: await readFile(certFile), key: await readFile(keyFile) };
}

const hostile: readonly {
  readonly given: string;
  readonly san: string;
  readonly covered?: readonly string[];
}[] = [
  { given: 'a NUL in a name', san: `DER:${derName('x.lab\0.evil.lab')}`, covered: [] },
  {
    given: 'thousands of names',
    san: `${Array.from({ length: 5000 }, (_, i) => `DNS:a${i}`).join()},DNS:x.lab`,
    covered: ['x.lab'],
  },
  {
    given: 'more than 100 KiB',
    san: `${Array.from({ length: 5000 }, (_, i) => `DNS:${i}-of-a-long-name`).join()},DNS:x.lab`,
  },
];
for (const { given, san, covered } of hostile)
  test(`lookAtCertificate() of a certificate with ${given}`, { skip }, async () => {
    const server = createServer(await certificateWith(san), socket => socket.on('error', () => {}).end());
    const seen = await look(await listening(server), ['x.lab']);
    assert.deepEqual(seen?.covered, covered);
  });

/** A SEQUENCE of one dNSName, in hex. */
function derName(name: string): string {
  const bytes = Buffer.from(name, 'latin1');
  return Buffer.concat([Buffer.of(0x30, bytes.length + 2, 0x82, bytes.length), bytes]).toString('hex');
}

for (const version of ['-tls1_2', '-tls1_3'])
  test(`lookAtCertificate() reads an expired certificate (${version})`, { skip }, async () => {
    const { certFile, keyFile } = await expiredCertificate('old.lab');
    await using server = await startOpensslServer({ certFile, keyFile, flags: [version] });
    const seen = await look(server.port, ['old.lab']);
    assert.deepEqual(seen?.covered, ['old.lab']);
    assert.ok(seen.notAfter < Date.now());
  });

test('lookAtCertificate() sends the name as SNI, and no wildcard', { skip }, async () => {
  const { certFile, keyFile } = await certificateFor('x.lab');
  const names: unknown[] = [];
  const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)]);
  const server = createServer({ cert, key }, socket => {
    names.push(socket.servername);
    socket.on('error', () => {}).end();
  });
  const port = await listening(server);
  await look(port, ['x.lab']);
  await look(port, ['*.x.lab']);
  assert.deepEqual(names, ['x.lab', false]);
});

test('lookAtCertificate() sees nothing where nobody listens, nothing is TLS, or nothing comes', {
  skip,
}, async () => {
  const closed = createTcpServer();
  const port = await listening(closed);
  await new Promise(resolve => closed.close(resolve));
  assert.equal(await look(port, ['x.lab']), undefined);
  const http = createTcpServer(socket =>
    socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n'),
  );
  assert.equal(await look(await listening(http), ['x.lab']), undefined);
  const silent = createTcpServer(socket => socket.on('error', () => {}));
  assert.equal(await look(await listening(silent), ['x.lab'], 50), undefined);
  // A record that promises 16 KiB, a byte at a time.
  const slow = createTcpServer(socket => {
    const bytes = [0x16, 3, 3, 0x40, 0];
    const timer = setInterval(() => socket.write(Uint8Array.of(bytes.shift() ?? 2)), 5);
    socket.on('error', () => {}).on('close', () => clearInterval(timer));
  });
  assert.equal(await look(await listening(slow), ['x.lab'], 200), undefined);
  assert.equal(
    await lookAtCertificate({ host: '127.0.0.1', port, serverName: 'x.lab', names: [] }, AbortSignal.abort()),
    undefined,
  );
});

test('lookAtCertificate() ends although the server sends without end', { skip }, async () => {
  const { certFile, keyFile } = await certificateFor('x.lab');
  const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)]);
  const chunk = Buffer.alloc(65_536);
  const server = createServer({ cert, key }, socket => {
    const pour = () => {
      while (!socket.destroyed && socket.write(chunk)) {}
    };
    socket.on('error', () => {}).on('drain', pour);
    pour();
  });
  assert.deepEqual((await look(await listening(server), ['x.lab']))?.covered, ['x.lab']);
});
