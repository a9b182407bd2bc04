import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { tempDir } from '../../testbed/temp-dir.ts';
import { clusterKey } from '../identity/cluster-key.ts';
import { readSecretFile } from '../identity/secret-file.ts';
import { demoClusters, TUNNEL_HOST } from './demo-clusters.ts';
import { clusterFiles, identityFiles } from './demo-files.ts';
import { DemoFolder } from './demo-folder.ts';
import { writeIdentity } from './write-identity.ts';

test('writeIdentity() writes keys derived from the secret, and a certificate for the tunnel host', async () => {
  await using dir = await tempDir();
  using folder = DemoFolder.claim(dir.path, { pid: 1, isRunning: () => false });
  await writeIdentity(folder);
  const written = (name: string) => readFileSync(folder.file(name), 'utf8');

  const read = await readSecretFile(folder.file(identityFiles.secret));
  assert.ok(read.ok);
  const keys = demoClusters.map(cluster => written(clusterFiles.agentKey(cluster)).trim());
  assert.deepEqual(
    keys,
    demoClusters.map(({ id }) => Buffer.from(clusterKey(read.secrets[0], id)).toString('base64url')),
  );
  assert.equal(new Set(keys).size, demoClusters.length);

  const certificate = new X509Certificate(written(identityFiles.tunnelCertificate));
  assert.ok(certificate.checkHost(TUNNEL_HOST));
  assert.ok(certificate.checkPrivateKey(createPrivateKey(written(identityFiles.tunnelKey))));
  assert.ok(certificate.verify(new X509Certificate(written(identityFiles.tunnelCa)).publicKey));
});
