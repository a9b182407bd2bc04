import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { plan } from '../plan/plan.ts';
import { newIngressRouteTcp } from './ingress-route-tcp.ts';
import { outputContract } from './output.contract.ts';
import { tenant } from './outputs.samples.ts';

const newOutput = () => newIngressRouteTcp('ingressRouteTCP', { entryPoints: ['websecure'] });

outputContract('ingressRouteTCP', newOutput);

test('newIngressRouteTcp() passes TLS through by SNI', () => {
  const { objects, findings } = newOutput().desired(plan([tenant('kamaji.clastix.io/v1alpha1', 'a', 'b')]));
  assert.deepEqual(findings, []);
  assert.equal(objects.length, 1);
  const { metadata, ...object } = objects[0].object;
  assert.match(metadata.name, /^a-b-[0-9a-f]{10}$/);
  assert.equal(metadata.namespace, 'a');
  assert.deepEqual(object, {
    apiVersion: 'traefik.io/v1alpha1',
    kind: 'IngressRouteTCP',
    spec: {
      entryPoints: ['websecure'],
      routes: [
        { match: 'HostSNI(`a-b.k8s.clastix.cloud`)', services: [{ name: 'b', port: 6443 }] },
        { match: 'HostSNI(`a-b.konnectivity.clastix.cloud`)', services: [{ name: 'b', port: 8132 }] },
      ],
      tls: { passthrough: true },
    },
  });
});

test('newIngressRouteTcp() has a wildcard match one label, after every exact host', () => {
  const service = { namespace: 'a', name: 'b', port: 443 };
  const routes = [sampleRoute({ kind: 'apps-https', hosts: ['*.apps.x_y.lab'], service })];
  const { objects } = newOutput().desired(plan([sampleCluster('c', { routes })]));
  const { spec } = objects[0].object as unknown as { spec: { routes: object[] } };
  assert.deepEqual(spec.routes, [
    {
      match: 'HostSNIRegexp(`^[^.]+\\.apps\\.x_y\\.lab$`)',
      priority: 1,
      services: [{ name: 'b', port: 443 }],
    },
  ]);
});

test('newIngressRouteTcp() lets no host end its expression', () => {
  const service = { namespace: 'a', name: 'b', port: 443 };
  const hosts = ['x`) || HostSNI(`*', '*', '*.', '*.*.lab', '192.0.2.1', ''];
  const clusters = [sampleCluster('c', { routes: [sampleRoute({ hosts, service })] })];
  const { objects, findings } = newOutput().desired({ clusters, findings: [], counts: plan([]).counts });
  assert.deepEqual(objects, []);
  assert.deepEqual(
    findings.map(({ code, cluster }) => [code, cluster]),
    [['OutputRejected', 'c']],
  );
});
