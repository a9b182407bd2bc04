import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cluster, ControlPlane } from '../cluster/cluster.ts';
import { sampleCluster, sampleOrigin, sampleRoute } from '../cluster/clusters.samples.ts';
import { certificateFindings, namesToVerify } from './certificate-findings.ts';

const NOW = new Date('2026-06-01T12:00:00Z');
const LATER = Date.parse('2027-01-01T00:00:00Z');
const INSIDE = 'kubernetes.default.svc';
const service = { namespace: 'n', name: 'a', port: 6443 };

function tenant(certSANs: readonly string[], routes?: Cluster['routes']): Cluster {
  const controlPlane: ControlPlane = {
    isPaused: false,
    certSANs,
    servingCertificate: { namespace: 'n', secret: 'a-api-server-certificate', certKey: 'c', keyKey: 'k' },
  };
  return sampleCluster('n.a', {
    origin: sampleOrigin('kamaji', 'n', 'a'),
    routes: routes ?? [{ ...sampleRoute({ hosts: ['api.a.lab'] }), service }],
    controlPlane,
  });
}

const found = (cluster: Cluster, missing: readonly string[], notAfter = LATER) =>
  certificateFindings(cluster, { missing, notAfter }, NOW).map(({ code, text, fix }) => [code, text, fix]);

test('namesToVerify() gives the hosts of the API server, those of its konnectivity, and the name inside', () => {
  const api = { ...sampleRoute({ hosts: ['api.lab', 'api2.lab'] }), service };
  const konnectivity = { ...sampleRoute({ kind: 'konnectivity', hosts: ['k.lab'] }), service };
  const other = { ...konnectivity, service: { ...service, name: 'other' } };
  const apps = { ...sampleRoute({ kind: 'apps-https', hosts: ['*.apps.lab'] }), service };
  assert.deepEqual(namesToVerify(tenant([], [api, konnectivity, apps])), [
    'api.lab',
    'api2.lab',
    'k.lab',
    INSIDE,
  ]);
  assert.deepEqual(namesToVerify(tenant([], [api, other])), ['api.lab', 'api2.lab', INSIDE]);
  const many = Array.from({ length: 1000 }, (_, i) => `${i}.lab`);
  assert.equal(namesToVerify(tenant([], [{ ...api, hosts: many }])).length, 8);
  assert.deepEqual(namesToVerify(tenant([], [])), [INSIDE]);
});

test('certificateFindings() has none for a certificate with all names that is valid for long', () => {
  assert.deepEqual(found(tenant(['api.a.lab']), []), []);
  assert.deepEqual(found(tenant(['api.a.lab']), [], Number.NaN), []);
});

test('certificateFindings() leaves a name that the object lacks to its source', () => {
  assert.deepEqual(found(tenant([]), ['api.a.lab']), []);
});

test('certificateFindings() reports names that the object has and the certificate has not, also by a wildcard', () => {
  const expected = [
    'CertificateSanMissing',
    "the API server's certificate does not have 'api.a.lab', although spec.networkProfile.certSANs does: it has not been issued again, or the API server has not been restarted since",
    'Let its operator issue it again: kubectl delete secret --namespace n a-api-server-certificate',
  ];
  assert.deepEqual(found(tenant(['API.A.lab.']), ['api.a.lab']), [expected]);
  assert.deepEqual(found(tenant(['*.a.lab']), ['api.a.lab']), [expected]);
  // A host that the cluster no longer has.
  assert.deepEqual(found(tenant(['*.a.lab']), ['old.a.lab']), []);
});

test('certificateFindings() gives the YAML for the name inside the cluster', () => {
  assert.deepEqual(found(tenant([]), ['api.a.lab', INSIDE]), [
    [
      'CertificateSanMissing',
      "the API server's certificate does not have 'kubernetes.default.svc', so pods of the cluster will not trust it",
      'Add to the list: spec: { networkProfile: { certSANs: ["kubernetes.default.svc"] } }',
    ],
  ]);
  assert.match(found(tenant([INSIDE]), [INSIDE])[0][1], /has not been issued again/);
});

test('certificateFindings() leaves names that nobody lists to the operator', () => {
  const cluster = tenant([]);
  const { certSANs: _, ...controlPlane } = cluster.controlPlane ?? { isPaused: false };
  const fix = 'Let its operator issue it again: kubectl delete secret --namespace n a-api-server-certificate';
  const both = `'api.a.lab' and '${INSIDE}', so clients will not trust it under those names`;
  for (const [missing, words] of [
    [[INSIDE], `'${INSIDE}', so clients will not trust it under that name`],
    [['api.a.lab', INSIDE, 'old.a.lab'], both],
  ] as const) {
    const text = `the API server's certificate does not have ${words}`;
    assert.deepEqual(found({ ...cluster, controlPlane }, missing), [['CertificateSanMissing', text, fix]]);
  }
  assert.deepEqual(found({ ...cluster, controlPlane }, []), []);
});

for (const [notAfter, expected] of [
  ['2026-06-15T12:00:01Z', undefined],
  ['2026-06-15T12:00:00Z', 'expires in 14 days, on 2026-06-15'],
  ['2026-06-02T12:00:00Z', 'expires in 1 day, on 2026-06-02'],
  ['2026-06-01T12:00:01Z', 'expires in less than a day, on 2026-06-01'],
  ['2026-06-01T12:00:00Z', 'expired less than a day ago, on 2026-06-01'],
  ['2026-05-01T12:00:00Z', 'expired 31 days ago, on 2026-05-01'],
] as const)
  test(`certificateFindings() of a certificate that is valid until ${notAfter}: ${expected}`, () => {
    const [finding] = certificateFindings(tenant([]), { missing: [], notAfter: Date.parse(notAfter) }, NOW);
    assert.equal(finding?.text, expected && `the API server's certificate ${expected}`);
    if (expected === undefined) return;
    assert.deepEqual([finding.code, finding.severity], ['CertificateExpires', 'warning']);
    assert.equal(finding.origin?.object?.name, 'a');
  });
