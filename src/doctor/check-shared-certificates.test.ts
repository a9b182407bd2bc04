import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleRoute } from '../cluster/clusters.samples.ts';
import { checkSharedCertificates } from './check-shared-certificates.ts';
import { sampleCertificate } from './doctor.samples.ts';

const seen = (name: string, host: string, certificate: string, alpn: string | undefined = 'h2') => ({
  name,
  seen: [{ route: sampleRoute(), host, alpn, certificate: sampleCertificate(certificate) }],
});
const pairs = (...clusters: Parameters<typeof checkSharedCertificates>[0]) =>
  checkSharedCertificates(clusters).map(({ cluster, code }) => `${cluster} ${code}`);

test('checkSharedCertificates() warns once of two clusters under one wildcard', () => {
  assert.deepEqual(pairs(seen('a', 'a.x.test', '*.x.test'), seen('b', 'b.x.test', '*.x.test')), [
    'a CertificateShared',
  ]);
});

test('checkSharedCertificates() warns where one certificate has a name of the other cluster', () => {
  assert.deepEqual(pairs(seen('a', 'a.test', 'b.test'), seen('b', 'b.test', 'b.test')), [
    'a CertificateShared',
  ]);
});

test('checkSharedCertificates() is silent without HTTP/2, for hosts of one cluster, and two labels deep', () => {
  assert.deepEqual(
    pairs(seen('a', 'a.x.test', '*.x.test'), seen('b', 'b.x.test', '*.x.test', 'http/1.1')),
    [],
  );
  assert.deepEqual(pairs(seen('a', 'a.x.test', '*.x.test'), seen('a', 'b.x.test', '*.x.test')), []);
  assert.deepEqual(pairs(seen('a', 'a.x.test', '*.x.test'), seen('b', 'c.b.x.test', '*.b.x.test')), []);
});
