import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { sampleCluster } from '../cluster/clusters.samples.ts';
import type { EndpointSlice, Service } from '../kube/kube-object.ts';
import { Report } from './check.ts';
import { checkTenantEndpoints } from './check-tenant-endpoints.ts';

const service: Service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'kubernetes', namespace: 'default' },
  spec: { clusterIPs: ['10.96.0.1'], ipFamilies: ['IPv4'] },
};

function slice(address: string): EndpointSlice {
  const labels = { 'kubernetes.io/service-name': 'kubernetes' };
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'kubernetes', namespace: 'default', labels },
    addressType: 'IPv4',
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
    ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
  };
}

async function codes(address: string, isOurs: boolean, manager?: string): Promise<readonly string[]> {
  const store = memoryStore(service);
  const writer = store.client(manager);
  const resource = {
    group: 'discovery.k8s.io',
    version: 'v1',
    plural: 'endpointslices',
    kind: 'EndpointSlice',
  };
  assert.ok((await writer.create(resource, slice(address))).ok);
  const tenant = { from: '', server: undefined, ca: undefined, problem: undefined, api: store.client() };
  const report = new Report('a');
  await checkTenantEndpoints({ cluster: sampleCluster('a'), tenant, agents: undefined, isOurs }, report);
  return report.checks.map(({ code }) => code);
}

test('checkTenantEndpoints() names an address that pods cannot reach', async () => {
  for (const address of ['127.0.0.1', '169.254.1.1', '0.0.0.0'])
    assert.deepEqual(await codes(address, true), ['EndpointUnreachable'], address);
  assert.deepEqual(await codes('10.96.0.1', true), ['EndpointIsClusterIp']);
});

test('checkTenantEndpoints() names an API server that writes the endpoints of agents', async () => {
  assert.deepEqual(await codes('192.0.2.1', true, 'kube-apiserver'), ['ReconcilerTypeMissing']);
  assert.deepEqual(await codes('192.0.2.1', false, 'kube-apiserver'), ['Ok']);
  assert.deepEqual(await codes('192.0.2.1', true, 'causeway'), ['Ok']);
});
