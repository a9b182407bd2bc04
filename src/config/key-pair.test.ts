import assert from 'node:assert/strict';
import { copyFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { certificateFor } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { KeyPairError, KeyPairWatch, readKeyPair } from './key-pair.ts';

const skip = missingPrograms('openssl');

test('readKeyPair() reads a pair', { skip }, async () => {
  const files = await certificateFor('gw.test');
  const { cert, key } = await readKeyPair(files);
  assert.match(cert.toString(), /BEGIN CERTIFICATE/);
  assert.match(key.toString(), /PRIVATE KEY/);
});

test('readKeyPair() names the bad file and what is wrong with it', { skip }, async () => {
  await using dir = await tempDir();
  const { certFile, keyFile } = await certificateFor('gw.test');
  const other = await certificateFor('other.test');
  await writeFile(dir.file('text'), 'nothing of the kind');
  await writeFile(dir.file('hollow'), '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  await writeFile(dir.file('torn'), '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n');
  const args = ['pkcs8', '-topk8', '-in', keyFile, '-passout', 'pass:x', '-out', dir.file('locked')];
  assert.equal((await run('openssl', args)).code, 0);
  const missing = dir.file('missing');
  for (const [files, reported] of [
    [{ certFile: missing, keyFile }, /^certFile: cannot be read: .*missing: there is no such file$/],
    [{ certFile, keyFile: missing }, /^keyFile: cannot be read/],
    [{ certFile: dir.path, keyFile }, /^certFile: cannot be read: .*EISDIR$/],
    [{ certFile: dir.file('text'), keyFile }, /^certFile: must contain a certificate in PEM format/],
    [{ certFile: keyFile, keyFile: certFile }, /^certFile: must contain a certificate in PEM format/],
    [{ certFile: dir.file('hollow'), keyFile }, /^certFile: must contain certificates in PEM format/],
    [{ certFile, keyFile: dir.file('text') }, /^keyFile: must contain a private key in PEM format/],
    [{ certFile, keyFile: dir.file('torn') }, /^keyFile: must be the key of the certificate/],
    [{ certFile, keyFile: other.keyFile }, /^keyFile: must be the key of the certificate/],
    [{ certFile, keyFile: dir.file('locked') }, /^keyFile: must not have a passphrase/],
  ] as const) {
    await assert.rejects(readKeyPair(files), error => {
      assert.ok(error instanceof KeyPairError);
      assert.match(error.message, reported);
      return true;
    });
  }
});

test('KeyPairWatch reports a new pair, and a bad one only when it stays bad', { skip }, async () => {
  await using dir = await tempDir();
  const files = { certFile: dir.file('tls.crt'), keyFile: dir.file('tls.key') };
  const put = async (name: string) => {
    const pair = await certificateFor(name);
    await copyFile(pair.certFile, files.certFile);
    await copyFile(pair.keyFile, files.keyFile);
  };
  await put('one.test');
  const reported: string[] = [];
  let wake = () => {};
  const report = (text: string) => {
    reported.push(text);
    wake();
  };
  using _ = await KeyPairWatch.start(files, await readKeyPair(files), {
    changed: ({ cert }) => report(cert.toString()),
    bad: ({ message }) => report(message),
  });
  const next = () => new Promise<void>(resolve => (wake = resolve));
  const certOf = async (name: string) => (await readKeyPair(await certificateFor(name))).cert.toString();
  let event = next();
  await put('two.test');
  await event;
  event = next();
  await writeFile(files.keyFile, 'broken');
  await event;
  event = next();
  await put('three.test');
  await event;
  const [two, broken, three] = reported;
  assert.equal(two, await certOf('two.test'));
  assert.match(broken, /^keyFile: must contain a private key/);
  assert.equal(three, await certOf('three.test'));
  assert.equal(reported.length, 3);
});
