import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseSecrets, readSecretFile } from './secret-file.ts';

const A = 'a'.repeat(32);
const B = 'b'.repeat(40);

function texts(content: string): string[] | string {
  const read = parseSecrets(Buffer.from(content, 'latin1'));
  return read.ok ? read.secrets.map(secret => Buffer.from(secret).toString('latin1')) : read.fault;
}

test('parseSecrets() takes the bytes of each line unchanged, in order', () => {
  const odd = ` \t\xff\0'"#: ${'x'.repeat(30)} \t`;
  for (const [content, secrets] of [
    [A, [A]],
    [`${A}\n`, [A]],
    [`${B}\n${A}\n`, [B, A]],
    [`${A}\r\n${B}\r\n`, [A, B]],
    [`\n\r\n${A}\n\n${B}`, [A, B]],
    [`${A}\r${B}\n`, [`${A}\r${B}`]],
    [`${odd}\n`, [odd]],
  ] as const)
    assert.deepEqual(texts(content), secrets, JSON.stringify(content));
});

test('parseSecrets() names the line that is too short, and shows no secret', () => {
  const fault = texts(`${A}\n\nhunter2\n`);
  assert.match(String(fault), /^line 3: a secret must have at least 32 bytes: this line has 7\b/);
  assert.doesNotMatch(String(fault), /hunter2/);
  assert.match(String(texts('x'.repeat(31))), /^line 1: /);
});

test('parseSecrets() requires 1 to 16 secrets', () => {
  for (const empty of ['', '\n', '\r\n\n']) assert.match(String(texts(empty)), /^has no secret/);
  assert.equal(texts(`${A}\n`.repeat(16)).length, 16);
  assert.match(String(texts(`${A}\n`.repeat(17))), /at most 16 secrets: current value is 17/);
});

test('readSecretFile() reads a file, or reports why it cannot', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'causeway-secret-'));
  try {
    const file = join(folder, 'secret');
    await writeFile(file, `${A}\n`, { mode: 0o600 });
    const read = await readSecretFile(file);
    assert.ok(read.ok);
    assert.equal(Buffer.from(read.secrets[0]).toString(), A);
    const faultOf = async (path: string) => {
      const bad = await readSecretFile(path);
      return bad.ok ? 'none' : bad.fault;
    };
    assert.equal(await faultOf(join(folder, 'missing')), 'there is no such file');
    assert.equal(await faultOf(join(file, 'inside')), 'there is no such file');
    assert.match(await faultOf(folder), /^must be a regular file/);
    assert.match(await faultOf('/dev/null'), /^must be a regular file/);
    await writeFile(file, 'x'.repeat(65_537));
    assert.match(await faultOf(file), /^must have at most 65536 bytes: current value is 65537/);
    await chmod(file, 0);
    if (process.getuid?.() !== 0) assert.match(await faultOf(file), /^permission denied/);
  } finally {
    await rm(folder, { recursive: true });
  }
});
