// Signed ids as another program computes them: keys and signatures made by `openssl` from the words of
// docs/agent/security.md open our gateway, and HKDF is written out from HMACs as RFC 5869 has it.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, bytes, connectClient, hello, servedBy } from '../features/given.ts';

const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';
const skip = missingPrograms('openssl');

test("keys and signatures made by openssl are the gateway's", { skip }, async () => {
  await using dir = await tempDir();
  await using backend = await Backend.start({ name: 'backend' });
  const made = await run('openssl', ['rand', '-base64', '32']);
  await writeFile(dir.file('secret'), made.stdout);
  const secret = Buffer.from(made.stdout.toString().trimEnd());
  const key = await hkdf(secret, bytes('causeway cluster ', ID));

  const args = ['identity', 'key', '--secret-file', dir.file('secret'), '--cluster-id', ID];
  const printed = await run(causewayBin, args);
  assert.equal(printed.stdout.toString(), `${key.toString('base64url')}\n`);

  await using gateway = await startCauseway({
    config: `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
identity: { secretFile: ${dir.file('secret')}, required: true }
clusters: [{ name: a, id: ${ID}, api: { backends: ["${backend.text}"] } }]
`,
  });
  const ipv4 = Buffer.from('c0000207ac140001', 'hex');
  const ipv6 = Buffer.from('20010db800000000000000000000000720010db8000000000000000000000001', 'hex');
  const ports = Buffer.from('9c40192b', 'hex');
  for (const [family, addresses] of [
    [0x11, ipv4],
    [0x21, ipv6],
  ] as const) {
    const source = addresses.subarray(0, addresses.length / 2);
    const signature = await sign(key, bytes(source, ports.subarray(0, 2)));
    const header = proxyHeader(family, bytes(addresses, ports), signature);
    assert.equal(await servedBy(gateway.port, bytes(header, hello(''))), 'backend');
  }
  using client = await connectClient(gateway.port);
  const text = (await sign(key, Buffer.alloc(0))).toString('base64url');
  client.send(`CONNECT ${ID}:6443 HTTP/1.1\r\nHost: ${ID}\r\nCauseway-Signature: ${text}\r\n\r\n`);
  assert.match((await client.receives('backend\n')).toString(), /^HTTP\/1\.1 200 /);
});

async function sign(key: Buffer, source: Uint8Array): Promise<Buffer> {
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(BigInt(Date.now()));
  const stamp = bytes(time, randomBytes(12));
  return bytes('\x01', stamp, await hmac(key, bytes('causeway/1', ID, stamp, source)));
}

/** RFC 5869 with an empty salt; one block is all that 32 bytes take. */
async function hkdf(secret: Buffer, info: Buffer): Promise<Buffer> {
  return hmac(await hmac(Buffer.alloc(32), secret), bytes(info, '\x01'));
}

async function hmac(key: Buffer, message: Uint8Array): Promise<Buffer> {
  const args = ['dgst', '-sha256', '-binary', '-mac', 'HMAC', '-macopt', `hexkey:${key.toString('hex')}`];
  const { code, stdout, stderr } = await run('openssl', args, { input: message });
  assert.equal(code, 0, stderr);
  return stdout;
}

function proxyHeader(family: number, addresses: Uint8Array, signature: Buffer): Buffer {
  const tlv = (type: number, value: Uint8Array) => bytes(Uint8Array.of(type, 0, value.length), value);
  const rest = bytes(addresses, tlv(0x20, bytes(ID)), tlv(0xe1, signature));
  const fixed = bytes(
    '\r\n\r\n\0\r\nQUIT\n',
    Uint8Array.of(0x21, family, rest.length >> 8, rest.length & 0xff),
  );
  return bytes(fixed, rest);
}
