// The credentials of one cluster: a CA, the certificates of its servers, a client certificate and a token.

import { randomBytes } from 'node:crypto';
import {
  CLIENT_AUTH,
  dnsName,
  ipAddress,
  type KeyPair,
  makeAuthority,
  SERVER_AUTH,
  sign,
} from './authority.ts';
import { type DemoCluster, GUEST_HOST } from './demo-clusters.ts';

/** All in PEM, except the token. */
export interface ClusterCertificates {
  /** The CA certificate, which clients trust. */
  readonly ca: string;
  /** For the API servers and konnectivity. */
  readonly controlPlane: KeyPair;
  readonly ingress: KeyPair;
  readonly client: KeyPair;
  readonly token: string;
}

/** The subject of the client certificate. */
export const certificateUser = { name: 'demo-admin', group: 'system:masters' } as const;

/** Names in every API server's certificate: those of the Service `kubernetes` in the cluster. */
const SERVICE_NAMES = [
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
  'kubernetes.default.svc.cluster.local',
];

export async function makeClusterCertificates(cluster: DemoCluster): Promise<ClusterCertificates> {
  const authority = await makeAuthority(cluster.name);
  const [controlPlane, ingress, client] = await Promise.all([
    sign(authority, `CN=kube-apiserver,O=${cluster.name}`, SERVER_AUTH, [
      ...[cluster.apiHost, cluster.konnectivityHost, GUEST_HOST, ...SERVICE_NAMES].map(dnsName),
      // An agent that cannot bind its own address listens on 127.0.0.1.
      ...[cluster.agentAddress, '127.0.0.1'].map(ipAddress),
    ]),
    sign(authority, `CN=ingress,O=${cluster.name}`, SERVER_AUTH, [dnsName(`*.${cluster.appsDomain}`)]),
    sign(authority, `CN=${certificateUser.name},O=${certificateUser.group}`, CLIENT_AUTH, []),
  ]);
  const ca = authority.certificate.toString('pem');
  return { ca, controlPlane, ingress, client, token: randomBytes(24).toString('base64url') };
}
