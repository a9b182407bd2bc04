import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { before, test } from 'node:test';
import { type ClusterCertificates, makeClusterCertificates } from './cluster-certificates.ts';
import { demoClusters } from './demo-clusters.ts';

const [hub, managed1] = demoClusters;
let own: ClusterCertificates;
let other: ClusterCertificates;

before(async () => {
  [own, other] = await Promise.all([hub, managed1].map(makeClusterCertificates));
});

test("makeClusterCertificates() signs with the cluster's own authority", () => {
  const ca = new X509Certificate(own.ca);
  assert.ok(ca.ca);
  for (const { cert, key } of [own.controlPlane, own.ingress, own.client]) {
    const certificate = new X509Certificate(cert);
    assert.ok(certificate.verify(ca.publicKey));
    assert.ok(!certificate.verify(new X509Certificate(other.ca).publicKey));
    assert.ok(certificate.checkPrivateKey(createPrivateKey(key)));
    assert.ok(!certificate.ca);
  }
  assert.notEqual(own.token, other.token);
});

test('makeClusterCertificates() covers the hosts and addresses that clients use', () => {
  const controlPlane = new X509Certificate(own.controlPlane.cert);
  for (const name of [hub.apiHost, hub.konnectivityHost, 'kubernetes.default.svc'])
    assert.ok(controlPlane.checkHost(name), name);
  assert.ok(controlPlane.checkIP(hub.agentAddress));
  assert.equal(controlPlane.checkHost(managed1.apiHost), undefined);
  const ingress = new X509Certificate(own.ingress.cert);
  assert.ok(ingress.checkHost(`hello.${hub.appsDomain}`));
  assert.equal(ingress.checkHost(`hello.${managed1.appsDomain}`), undefined);
});
