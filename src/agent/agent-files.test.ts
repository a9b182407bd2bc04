import assert from 'node:assert/strict';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { certificateFor } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { clusterKey } from '../identity/cluster-key.ts';
import { type AgentFiles, readAgentFiles, watchAgentFiles } from './agent-files.ts';
import type { AgentOptions } from './agent-options.ts';

const skip = missingPrograms('openssl');
const KEY = Buffer.from(clusterKey(Buffer.from('secret'), 'a-1')).toString('base64url');
const NEXT = Buffer.from(clusterKey(Buffer.from('next'), 'a-1')).toString('base64url');

let dir: TempDir;
before(async () => {
  dir = await tempDir();
});
after(() => dir[Symbol.asyncDispose]());

async function pairFor(name: string): Promise<{ cert: string; key: string }> {
  const { certFile, keyFile } = await certificateFor(name);
  return { cert: await readFile(certFile, 'latin1'), key: await readFile(keyFile, 'latin1') };
}

/** Options that name files with this content. */
async function options(files: Readonly<Record<string, string>>): Promise<AgentOptions> {
  const paths: Record<string, string> = {};
  for (const [name, content] of Object.entries(files)) {
    paths[name] = dir.file(name);
    await writeFile(paths[name], content);
  }
  return paths as unknown as AgentOptions;
}

test('readAgentFiles() reads the files that the flags name', { skip }, async () => {
  const { cert, key } = await pairFor('a.test');
  const read = await readAgentFiles(
    await options({ keyFile: `${KEY}\n`, caFile: cert, certFile: cert, certKeyFile: key }),
  );
  assert.deepEqual(read, { key: KEY, ca: cert, certificate: { cert, key } });
  assert.deepEqual(await readAgentFiles({} as AgentOptions), {});
});

test('readAgentFiles() names the flag and the problem', { skip }, async () => {
  const [pair, other] = [await pairFor('a.test'), await pairFor('b.test')];
  const missing = dir.file('missing');
  const cases: readonly (readonly [files: Readonly<Record<string, string>>, message: RegExp])[] = [
    [
      { keyFile: KEY.slice(1) },
      /^--key-file must contain the 43 characters that causeway identity key prints/,
    ],
    [{ caFile: 'no pem' }, /^--ca-file must contain certificates in PEM format: .* does not$/],
    [
      { certFile: pair.cert, certKeyFile: other.key },
      /^--cert-key-file must be the key of the certificate in .*certFile: .*certKeyFile is not \(/,
    ],
    // As a file is for a moment while it is written.
    [
      { certFile: '', certKeyFile: pair.key },
      /^--cert-file must contain a certificate in PEM format: .* does not$/,
    ],
    [
      { certFile: pair.cert, certKeyFile: '' },
      /^--cert-key-file must contain a private key in PEM format: .* does not$/,
    ],
  ];
  for (const [files, message] of cases)
    await assert.rejects(async () => readAgentFiles(await options(files)), {
      code: 'ERR_AGENT_FILE',
      message,
    });
  await assert.rejects(readAgentFiles({ keyFile: missing } as AgentOptions), {
    code: 'ERR_AGENT_FILE',
    message: /^--key-file cannot be read: .*missing: there is no such file$/,
  });
});

test('watchAgentFiles() reports changes, also by rename, and a bad file only when it stays bad', async () => {
  const files = await options({ keyFile: KEY });
  const reported: string[] = [];
  let next = Promise.withResolvers<void>();
  const report = (event: string) => {
    reported.push(event);
    next.resolve();
    next = Promise.withResolvers();
  };
  using _ = await watchAgentFiles(files, {
    changed: ({ key }: AgentFiles) => report(`key ${key}`),
    bad: error => report(error.message.slice(0, 10)),
  });
  // The content at the start, in case it changed between reading and watching.
  await next.promise;
  const renamed = next.promise;
  await writeFile(dir.file('new'), NEXT);
  await rename(dir.file('new'), dir.file('keyFile'));
  await renamed;
  const bad = next.promise;
  await writeFile(dir.file('keyFile'), 'short');
  await bad;
  const good = next.promise;
  await writeFile(dir.file('keyFile'), KEY);
  await good;
  assert.deepEqual(reported, [`key ${KEY}`, `key ${NEXT}`, '--key-file', `key ${KEY}`]);
});
