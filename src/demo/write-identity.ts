// Writes what agents and the gateway need to authenticate each other, as an operator would: a secret for the gateway, a
// key for each cluster derived from it (`causeway identity key`), and a certificate for the tunnel host.

import { randomBytes } from 'node:crypto';
import { clusterKey } from '../identity/cluster-key.ts';
import { dnsName, makeAuthority, SERVER_AUTH, sign } from './authority.ts';
import { demoClusters, TUNNEL_HOST } from './demo-clusters.ts';
import { clusterFiles, identityFiles } from './demo-files.ts';
import type { DemoFolder } from './demo-folder.ts';

export async function writeIdentity(folder: DemoFolder): Promise<void> {
  const secret = randomBytes(32).toString('base64');
  folder.write(identityFiles.secret, `${secret}\n`);
  for (const cluster of demoClusters) {
    const key = Buffer.from(clusterKey(Buffer.from(secret), cluster.id)).toString('base64url');
    folder.write(clusterFiles.agentKey(cluster), `${key}\n`);
  }
  const authority = await makeAuthority('gateway');
  const { cert, key } = await sign(authority, 'CN=gateway', SERVER_AUTH, [dnsName(TUNNEL_HOST)]);
  folder.write(identityFiles.tunnelCertificate, cert);
  folder.write(identityFiles.tunnelKey, key);
  folder.write(identityFiles.tunnelCa, authority.certificate.toString('pem'));
}
