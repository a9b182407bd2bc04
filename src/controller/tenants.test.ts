import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { kubernetesService, memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Config, OutputSettings } from '../config/config.ts';
import { events } from '../kube/resources.ts';
import { openEventWriter } from '../outputs/event-writer.ts';
import { objectStates } from '../outputs/object-states.ts';
import { sampleAgentOptions, sampleTenant } from '../outputs/tenant-agent.samples.ts';
import { Tenants } from './tenants.ts';

const endpoints: OutputSettings = {
  name: 'tenantEndpoints',
  kind: 'tenantEndpoints',
  options: { address: '192.0.2.7' },
};
const agent: OutputSettings = { name: 'tenantAgent', kind: 'tenantAgent', options: sampleAgentOptions };
const MINUTE = 60_000;

/** A tenant's API server in memory. */
function given() {
  const [management, tenant] = [memoryStore(), memoryStore(kubernetesService('10.96.0.1'))];
  const clock = testClock();
  const state = { changes: 0, isLeader: true };
  const tenants = new Tenants({
    management: () => management.client(),
    isLeader: () => state.isLeader,
    version: '0.1.0',
    keyOf: () => undefined,
    log: pino({ enabled: false }),
    changed: () => state.changes++,
    clock,
    openClient: () => ({ ...tenant.client(), [Symbol.dispose]() {} }),
  });
  const cluster = sampleTenant();
  /** As an edit of the file does. */
  const use = async (outputs: readonly OutputSettings[], clusters: readonly Cluster[] = [cluster]) => {
    tenants.use({ outputs } as Config, 'causeway-system.causeway');
    tenants.update(clusters);
    await clock.advance(MINUTE);
  };
  const left = () => tenants.findings.filter(({ code }) => code === 'EndpointsLeft');
  const slice = () => tenant.peek('EndpointSlice/default/kubernetes');
  return { management, tenants, clock, state, cluster, use, left, slice };
}

test('Tenants leaves the endpoints as they are without tenantEndpoints, with a last Event on the object', async () => {
  const { management, tenants, clock, state, cluster, use, left, slice } = given();
  await using writer = openEventWriter(management.client(), { isLeader: () => true, clock, instance: 'x' });
  const report = async (ms: number) => {
    const findings = tenants.findings;
    writer.update(objectStates({ clusters: [cluster], findings, isUp: () => true }));
    await clock.advance(ms);
  };
  await use([endpoints]);
  const written = slice();
  assert.ok(written);
  assert.deepEqual(left(), []);
  const { changes } = state;
  await use([]);
  assert.ok(state.changes > changes);
  assert.deepEqual(slice(), written);
  assert.deepEqual(left(), [
    {
      cluster: 'tenants.a',
      origin: cluster.origin,
      severity: 'info',
      code: 'EndpointsLeft',
      text: 'tenantEndpoints was taken out of the file: the endpoints of default/kubernetes in the tenant stay as they are, and from now on nobody keeps them up to date',
      fix: 'Put tenantEndpoints back, or write them otherwise: pods need them',
    },
  ]);
  // Leadership of some server has changed.
  tenants.wake();
  await report(MINUTE);
  // It ends before its Event would be written again.
  await clock.advance(30 * MINUTE);
  assert.deepEqual(left(), []);
  await report(120 * MINUTE);
  const listed = await management.client().list(events, { namespace: 'tenants' });
  assert.ok(listed.ok);
  assert.deepEqual(
    listed.value.items.map(({ type, reason, regarding }) => [type, reason, regarding.name]),
    [['Normal', 'EndpointsLeft', 'a']],
  );
  await tenants[Symbol.asyncDispose]();
});

test('Tenants says that agents go on, takes it back with the output, and forgets clusters that are gone', async () => {
  const { tenants, cluster, use, left } = given();
  await use([endpoints, agent]);
  await use([agent]);
  assert.match(left()[0]?.text, /its agents keep them up to date$/);
  // Its source is being listed again.
  tenants.update([], new Set(['steward']));
  assert.equal(left().length, 1);
  await use([endpoints]);
  assert.deepEqual(left(), []);
  await use([]);
  assert.equal(left().length, 1);
  tenants.update([cluster]);
  assert.equal(left().length, 1);
  tenants.update([]);
  assert.deepEqual(left(), []);
  await tenants[Symbol.asyncDispose]();
});

test('Tenants has no last Event where it never wrote: another replica does, or the tenant was not reached', async () => {
  const { tenants, state, use, left } = given();
  state.isLeader = false;
  await use([endpoints]);
  await use([]);
  assert.deepEqual(left(), []);
  await tenants[Symbol.asyncDispose]();
});
