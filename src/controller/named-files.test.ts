import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { formatMistake } from '../config/mistake.ts';
import { readConfig } from '../config/read-config.ts';
import { judgeFiles, missingKubeconfigs } from './named-files.ts';

let folder: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'named-files-'));
  await writeFile(join(folder, 'short'), 'short\n');
  await writeFile(join(folder, 'nothing'), 'nothing\n');
});

after(() => rm(folder, { recursive: true }));

function read(text: string): Extract<ReturnType<typeof readConfig>, { ok: true }> {
  const result = readConfig(text, 'causeway.yaml');
  assert.ok(result.ok);
  return result;
}

async function reported(text: string, before?: string): Promise<string[]> {
  const { config, positions } = read(text);
  const served = before === undefined ? undefined : read(before).config;
  const mistakes = await judgeFiles(join(folder, 'causeway.yaml'), config, positions, served);
  return mistakes.map(mistake => {
    const line = formatMistake('causeway.yaml', mistake).replaceAll(`${folder}/`, '');
    return mistake.isUnread ? `unread ${line}` : line;
  });
}

const everything = (secret: string, cert: string) => `listen: [":0"]
tunnel:
  hosts: [t.test]
  certificates:
    - { certFile: none, keyFile: none }
    - { certFile: ${cert}, keyFile: short }
admin: { tls: { certFile: nothing, keyFile: none } }
identity:
  secretFile: ${secret}
`;

test('judgeFiles() reports every bad file at its position, in the order of causeway.yaml', async () => {
  assert.deepEqual(await reported(everything('short', 'nothing')), [
    'unread causeway.yaml:5:19: tunnel.certificates[0].certFile: cannot be read: none: there is no such file',
    'unread causeway.yaml:5:34: tunnel.certificates[0].keyFile: cannot be read: none: there is no such file',
    'causeway.yaml:6:19: tunnel.certificates[1].certFile: must contain a certificate in PEM format: nothing does not',
    'causeway.yaml:6:37: tunnel.certificates[1].keyFile: must contain a private key in PEM format: short does not',
    'causeway.yaml:7:27: admin.tls.certFile: must contain a certificate in PEM format: nothing does not',
    'unread causeway.yaml:7:45: admin.tls.keyFile: cannot be read: none: there is no such file',
    'causeway.yaml:9:15: identity.secretFile: short: line 1: a secret must have at least 32 bytes: this line has 5. Make one with: openssl rand -base64 32',
  ]);
  assert.deepEqual(await reported('listen: [":0"]'), []);
});

test('judgeFiles() skips files that the served configuration already names', async () => {
  const before = everything('short', 'nothing');
  assert.deepEqual(await reported(before, before), []);
  assert.deepEqual(await reported(everything('missing', 'short'), before), [
    'causeway.yaml:6:19: tunnel.certificates[1].certFile: must contain a certificate in PEM format: short does not',
    'causeway.yaml:6:35: tunnel.certificates[1].keyFile: must contain a private key in PEM format: short does not',
    'unread causeway.yaml:9:15: identity.secretFile: missing: there is no such file',
  ]);
});

test('missingKubeconfigs() reports those of sources that are not there, at their position', async () => {
  const { config, positions } = read(`listen: [":0"]
sources:
  - kamaji: {}
  - kamaji: { kubeconfig: nowhere }
  - steward: { kubeconfig: short }
  - directory: { path: nowhere }
  - services: { domains: [a.test], kubeconfig: short/inside }
`);
  const mistakes = await missingKubeconfigs(join(folder, 'causeway.yaml'), config, positions);
  const waits = 'there is no such file: causeway run would wait for it before it reads this source';
  assert.deepEqual(
    mistakes.map(mistake => formatMistake('causeway.yaml', mistake).replaceAll(`${folder}/`, '')),
    [
      `causeway.yaml:4:27: sources[1].kamaji.kubeconfig: nowhere: ${waits}`,
      `causeway.yaml:7:48: sources[4].services.kubeconfig: short/inside: ${waits}`,
    ],
  );
});
