// Leadership by a Lease of a real API server, and the permissions that it needs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import { openLeaderLease } from '../../src/kube/leader-lease.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { leases } from '../../src/kube/resources.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startApiServer } from '../../testbed/start-api-server.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');

test('openLeaderLease() passes leadership on when its holder ends, and takes it back after a loss', {
  skip,
  timeout: 240_000,
}, async () => {
  await using server = await startApiServer();
  const access = await openKubeAccess({ kubeconfig: await server.kubeconfig() });
  using api = openKubeClient({ access });
  const changes: string[] = [];
  const open = (identity: string, namespace = 'default') =>
    openLeaderLease(api, { namespace, name: 'causeway', identity }, () => changes.push(identity));
  const until = async (condition: () => boolean) => {
    while (!condition()) await setTimeout(20);
  };

  await using nowhere = open('nowhere', 'no-such-namespace');
  const a = open('a');
  await until(() => a.isLeader());
  await using b = open('b');
  await until(() => b.holder === 'a');
  assert.equal(b.isLeader(), false);
  await until(() => nowhere.error === '404 NotFound: namespaces "no-such-namespace" not found');
  await a[Symbol.asyncDispose]();
  await until(() => b.isLeader());
  assert.equal(a.isLeader(), false);
  assert.deepEqual(changes, ['a', 'b']);
  const found = await api.get(leases, 'default', 'causeway');
  assert.ok(found.ok);
  const { holderIdentity, leaseDurationSeconds, leaseTransitions } = found.value.spec ?? {};
  assert.deepEqual([holderIdentity, leaseDurationSeconds, leaseTransitions], ['b', 15, 1]);

  // As an operator may do.
  const spec = JSON.stringify({ spec: { holderIdentity: 'somebody' } });
  await server.kubectl('patch', 'lease', 'causeway', '--type=merge', '-p', spec);
  await until(() => !b.isLeader());
  assert.equal(b.holder, 'somebody');
  await until(() => b.isLeader());
});
