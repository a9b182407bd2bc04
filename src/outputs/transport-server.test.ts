import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { plan } from '../plan/plan.ts';
import { outputContract } from './output.contract.ts';
import { tenant } from './outputs.samples.ts';
import { newTransportServer, transportServers } from './transport-server.ts';

const newOutput = (className?: string) => newTransportServer('transportServer', { className });
const service = { namespace: 'a', name: 'b', port: 443 };

outputContract('transportServer', newOutput);

test('newTransportServer() passes TLS through by SNI, with an object for each host', () => {
  const { objects, findings } = newOutput('nginx').desired(
    plan([tenant('kamaji.clastix.io/v1alpha1', 'a', 'b')]),
  );
  assert.deepEqual(findings, []);
  assert.deepEqual(
    objects.map(({ object: { metadata, ...rest } }) => [metadata.namespace, rest]),
    [
      ['a-b.k8s.clastix.cloud', 6443],
      ['a-b.konnectivity.clastix.cloud', 8132],
    ].map(([host, port]) => [
      'a',
      {
        apiVersion: 'k8s.nginx.org/v1',
        kind: 'TransportServer',
        spec: {
          ingressClassName: 'nginx',
          listener: { name: 'tls-passthrough', protocol: 'TLS_PASSTHROUGH' },
          host,
          upstreams: [{ name: 'backend', service: 'b', port }],
          action: { pass: 'backend' },
        },
      },
    ]),
  );
});

test('newTransportServer() names no class where the option does not', () => {
  const { objects } = newOutput().desired(plan([tenant('kamaji.clastix.io/v1alpha1', 'a', 'b')]));
  assert.equal('ingressClassName' in (objects[0].object as unknown as { spec: object }).spec, false);
});

test('newTransportServer() leaves out what NGINX does not pass through, with a finding', () => {
  const hosts = ['*.apps.lab', 'a_b.lab', 'x.lab', '*', 'a b', ''];
  const clusters = [sampleCluster('c', { routes: [sampleRoute({ kind: 'own', hosts, service })] })];
  const { objects, findings } = newOutput().desired({ ...plan([]), clusters });
  assert.deepEqual(
    objects.map(({ object }) => (object as unknown as { spec: { host: string } }).spec.host),
    ['x.lab'],
  );
  assert.deepEqual(
    findings.map(({ code, text }) => [code, text.replace(/^.*: /, '')]),
    [
      ['OutputRejected', 'NGINX passes only exact hosts through'],
      ['OutputRejected', "a TransportServer allows no '_' in host names"],
      ['OutputRejected', 'not a host name'],
    ],
  );
});

test('the status of a TransportServer says why it is not served', () => {
  const refusal = (status: unknown) =>
    transportServers.refusalOf?.({ metadata: { name: 'x' }, status } as unknown as KubeObject)?.text;
  for (const good of [undefined, null, 7, [], {}, { state: 'Valid', reason: 'AddedOrUpdated' }])
    assert.equal(refusal(good), undefined);
  assert.equal(refusal({ state: 'Warning', reason: 'AddedOrUpdatedWithWarning' }), undefined);
  const rejected = { state: 'Warning', reason: 'Rejected', message: 'Host is taken by another resource' };
  assert.equal(
    refusal(rejected),
    'NGINX Ingress Controller does not serve it: Rejected: Host is taken by another resource',
  );
  assert.notEqual(refusal({ state: 'Invalid', reason: 7, message: {} }), undefined);
  const metadata = { name: 'x', creationTimestamp: '2026-01-01T00:00:00Z' };
  const silence = transportServers.refusalOf?.({ metadata, status: {} } as unknown as KubeObject);
  assert.deepEqual(
    [silence?.text, silence?.from],
    ['no NGINX Ingress Controller says anything about it', Date.UTC(2026, 0, 1, 0, 1)],
  );
});
