// What a cluster has of its own: an authority, the certificates of its servers, a client certificate and a token. Made
// anew at each start and kept nowhere but in ./demo-out, so that nothing of a demo can be used later.

import './reflect-metadata.ts';
import { randomBytes, webcrypto } from 'node:crypto';
import * as x509 from '@peculiar/x509';
import type { DemoCluster } from './demo-clusters.ts';

export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** All in PEM, but for the token. */
export interface ClusterCertificates {
  /** The authority's certificate, which clients trust. */
  readonly ca: string;
  /** For the API servers and konnectivity. */
  readonly controlPlane: KeyPair;
  readonly ingress: KeyPair;
  readonly client: KeyPair;
  readonly token: string;
}

/** Who the client certificate and the token speak for. */
export const certificateUser = { name: 'demo-admin', group: 'system:masters' } as const;

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY_MS = 24 * 60 * 60 * 1000;
/** A demo is not left running for longer; a machine's clock may be a little behind another's. */
const LIFETIME_MS = 30 * DAY_MS;
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';

/** What every API server's certificate is good for: the names of the Service `kubernetes` in the cluster. */
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
      ...[cluster.apiHost, cluster.konnectivityHost, ...SERVICE_NAMES].map(dnsName),
      // An agent that cannot have an address of its own listens on the usual one.
      ...[cluster.agentAddress, '127.0.0.1'].map(ipAddress),
    ]),
    sign(authority, `CN=ingress,O=${cluster.name}`, SERVER_AUTH, [dnsName(`*.${cluster.appsDomain}`)]),
    sign(authority, `CN=${certificateUser.name},O=${certificateUser.group}`, CLIENT_AUTH, []),
  ]);
  const ca = authority.certificate.toString('pem');
  return { ca, controlPlane, ingress, client, token: randomBytes(24).toString('base64url') };
}

interface Authority {
  readonly certificate: x509.X509Certificate;
  readonly keys: webcrypto.CryptoKeyPair;
}

async function makeAuthority(name: string): Promise<Authority> {
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity(),
    serialNumber: serialNumber(),
    name: `CN=${name} demo authority`,
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate, keys };
}

async function sign(
  authority: Authority,
  subject: string,
  usage: string,
  names: readonly x509.JsonGeneralName[],
): Promise<KeyPair> {
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    ...validity(),
    serialNumber: serialNumber(),
    subject,
    issuer: authority.certificate.subject,
    publicKey: keys.publicKey,
    signingKey: authority.keys.privateKey,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([usage]),
      ...(names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension([...names])]),
      await x509.AuthorityKeyIdentifierExtension.create(authority.certificate),
    ],
  });
  const key = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
  return { cert: certificate.toString('pem'), key: x509.PemConverter.encode(key, 'PRIVATE KEY') };
}

function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, [
    'sign',
    'verify',
  ]) as Promise<webcrypto.CryptoKeyPair>;
}

function validity(): { readonly notBefore: Date; readonly notAfter: Date } {
  return { notBefore: new Date(Date.now() - DAY_MS), notAfter: new Date(Date.now() + LIFETIME_MS) };
}

/** RFC 5280 4.1.2.2: positive, so its first bit is not set. */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = (bytes[0] & 0x7f) | 0x40;
  return bytes.toString('hex');
}

function dnsName(value: string): x509.JsonGeneralName {
  return { type: 'dns', value };
}

function ipAddress(value: string): x509.JsonGeneralName {
  return { type: 'ip', value };
}
