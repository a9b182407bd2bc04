// Events and the status annotation on objects of a real API server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SourceObject } from '../../src/cluster/cluster.ts';
import type { Finding } from '../../src/cluster/finding.ts';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { services } from '../../src/kube/resources.ts';
import { openEventWriter } from '../../src/outputs/event-writer.ts';
import type { ObjectState } from '../../src/outputs/object-states.ts';
import { openStatusWriter, STATUS_ANNOTATION } from '../../src/outputs/status-writer.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startApiServer } from '../../testbed/start-api-server.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const finding: Finding = {
  severity: 'error',
  code: 'HostClaimed',
  text: "'a.lab' belongs to cluster 'b'",
  fix: 'Give it another host',
};

test('findings and status are on the object, once, and not on its successor', {
  skip,
  timeout: 240_000,
}, async () => {
  await using server = await startApiServer();
  using api = openKubeClient({ access: await openKubeAccess({ kubeconfig: await server.kubeconfig() }) });
  const create = async (): Promise<SourceObject> => {
    await server.kubectl('create', 'service', 'clusterip', 'a', '--tcp=443');
    const found = await api.get(services, 'default', 'a');
    assert.ok(found.ok);
    const { uid = '', creationTimestamp: createdAt = '' } = found.value.metadata;
    return { apiVersion: 'v1', kind: 'Service', namespace: 'default', name: 'a', uid, createdAt };
  };
  const annotation = async () => {
    const found = await api.get(services, 'default', 'a');
    return found.ok ? found.value.metadata.annotations?.[STATUS_ANNOTATION] : undefined;
  };
  const states = (object: SourceObject): ObjectState[] => [
    { object, status: '{"ready":true}', findings: [finding] },
  ];
  const until = async (condition: () => Promise<boolean>) => {
    while (!(await condition()));
  };
  const object = await create();
  const leading = { isLeader: () => true };
  {
    await using statuses = openStatusWriter(api, { ...leading, enabled: true });
    await using events = openEventWriter(api, { ...leading, instance: 'a' });
    statuses.update(states(object));
    events.update(states(object));
    await until(async () => (await annotation()) === '{"ready":true}');
    await until(async () => (await server.kubectl('describe', 'service', 'a')).includes('HostClaimed'));
    const described = await server.kubectl('describe', 'service', 'a');
    assert.match(
      described,
      /Warning +HostClaimed .*causeway +'a.lab' belongs to cluster 'b'. Give it another host/,
    );
    const field = '{.items[?(@.reason=="HostClaimed")].reportingComponent}';
    assert.equal(await server.kubectl('get', 'events', '-o', `jsonpath=${field}`), 'causeway');
    assert.deepEqual([statuses.error, events.error], [undefined, undefined]);
  }

  // A patch for the object that was there before is refused.
  await server.kubectl('delete', 'service', 'a');
  const next = await create();
  assert.notEqual(next.uid, object.uid);
  const patch = { metadata: { uid: object.uid, annotations: { [STATUS_ANNOTATION]: 'old' } } };
  const late = await api.merge(services, 'default', 'a', patch);
  assert.equal(late.ok, false);
  assert.equal(await annotation(), undefined);
  {
    await using statuses = openStatusWriter(api, { ...leading, enabled: true });
    statuses.update(states(next));
    await until(async () => (await annotation()) !== undefined);
  }
  await using off = openStatusWriter(api, { ...leading, enabled: false });
  off.update(states(next));
  await until(async () => (await annotation()) === undefined);
});
