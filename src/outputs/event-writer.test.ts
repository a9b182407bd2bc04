import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import { sampleOrigin } from '../cluster/clusters.samples.ts';
import type { Finding } from '../cluster/finding.ts';
import type { KubeEvent } from '../kube/kube-object.ts';
import { openEventWriter } from './event-writer.ts';
import type { ObjectState } from './object-states.ts';

const HOUR = 3_600_000;

function state(name: string, ...texts: readonly (string | Partial<Finding>)[]): ObjectState {
  return stateIn('tenants', name, ...texts);
}

function stateIn(
  namespace: string,
  name: string,
  ...texts: readonly (string | Partial<Finding>)[]
): ObjectState {
  const { object } = sampleOrigin('services', namespace, name);
  assert.ok(object);
  const findings = texts.map(given => ({
    severity: 'error' as const,
    code: 'HostClaimed' as const,
    fix: 'Fix it',
    ...(typeof given === 'string' ? { text: given } : { text: 'text', ...given }),
  }));
  return { object, findings };
}

function given() {
  const store = memoryStore();
  const clock = testClock();
  const lead = { is: true };
  const open = (instance = 'a') =>
    openEventWriter(store.client(), { isLeader: () => lead.is, instance, clock, random: () => 1 });
  const events = () =>
    store
      .keys()
      .filter(key => key.startsWith('Event/'))
      .map(key => store.peek<KubeEvent>(key) as KubeEvent);
  return { store, clock, lead, open, events };
}

test('openEventWriter() says on the object what is wrong and what to do', async () => {
  const { clock, open, events } = given();
  await using writer = open();
  writer.update([state('a', 'text'), state('b', { severity: 'info', code: 'HostInvalid' })]);
  await clock.advance(1000);
  const [first, second] = events();
  assert.deepEqual(
    [first.type, first.reason, first.note, first.reportingController, first.metadata.namespace],
    ['Warning', 'HostClaimed', 'text. Fix it', 'causeway', 'tenants'],
  );
  assert.deepEqual(first.regarding, {
    apiVersion: 'v1',
    kind: 'Service',
    namespace: 'tenants',
    name: 'a',
    uid: 'uid-tenants-a',
  });
  assert.deepEqual([second.type, second.reason], ['Normal', 'HostInvalid']);
});

test('openEventWriter() writes a finding once an hour, however often it comes and goes', async () => {
  const { store, clock, open, events } = given();
  await using writer = open();
  let calls = 0;
  store.gate = async label => {
    if (label === 'create events') calls++;
  };
  for (let i = 0; i < 50; i++) {
    writer.update(i % 2 === 0 ? [state('a', 'text')] : []);
    await clock.advance(60_000);
  }
  assert.deepEqual([events().length, calls], [1, 1]);
  writer.update([state('a', 'text')]);
  await clock.advance(HOUR);
  assert.equal(events().length, 2);
});

test('openEventWriter() writes again when the text changes', async () => {
  const { clock, open, events } = given();
  await using writer = open();
  writer.update([state('a', 'one')]);
  await clock.advance(1000);
  writer.update([state('a', 'two')]);
  await clock.advance(1000);
  assert.deepEqual(
    events().map(({ note }) => note),
    ['one. Fix it', 'two. Fix it'],
  );
});

test('openEventWriter() writes nothing twice when another replica takes over', async () => {
  const { store, clock, lead, open, events } = given();
  {
    await using writer = open('a');
    writer.update([state('a', 'text')]);
    await clock.advance(1000);
  }
  await using writer = open('b');
  lead.is = false;
  writer.update([state('a', 'text')]);
  await clock.advance(5000);
  lead.is = true;
  await clock.advance(5000);
  assert.equal(events().length, 1);
  assert.equal(store.writes.length, 1);
  assert.equal(writer.error, undefined);
});

test('openEventWriter() bounds Events per second and per object', async () => {
  const { clock, open, events } = given();
  await using writer = open();
  const many = Array.from({ length: 1000 }, (_, i) => `text ${i}`);
  writer.update([state('a', ...many), state('b', 'text')]);
  await clock.advance(1000);
  assert.ok(events().length <= 11, `${events().length}`);
  for (let i = 0; i < 100; i++) {
    writer.update([state('a', `changes ${i}`), state('b', 'text')]);
    await clock.advance(1000);
  }
  const of = (name: string) => events().filter(({ regarding }) => regarding.name === name).length;
  assert.deepEqual([of('a'), of('b')], [20, 1]);
});

test('openEventWriter() lets namespaces take turns', async () => {
  const { clock, open, events } = given();
  await using writer = open();
  const many = Array.from({ length: 100 }, (_, i) => stateIn('flood', `f${i}`, 'text'));
  writer.update(many);
  await clock.advance(1000);
  writer.update([...many, state('a', 'text')]);
  await clock.advance(300);
  assert.ok(events().some(({ regarding }) => regarding?.name === 'a'));
  assert.ok(events().length < 20);
});

test('openEventWriter() retries with back-off, and does not insist on a namespace that is gone', async () => {
  const { store, clock, open, events } = given();
  await using writer = open();
  let calls = 0;
  store.fault = () => (++calls <= 2 ? { status: 0, reason: 'Timeout', message: 'late' } : undefined);
  writer.update([state('a', 'text')]);
  await clock.advance(0);
  assert.equal(writer.error, 'Cannot write an Event on tenants/a; retrying: Timeout: late');
  await clock.advance(10_000);
  assert.equal(events().length, 1);
  assert.equal(writer.error, undefined);
  calls = 0;
  store.fault = () => {
    calls++;
    return { status: 404, reason: 'NotFound', message: 'namespaces "tenants" not found' };
  };
  writer.update([state('a', 'other')]);
  await clock.advance(60_000);
  assert.equal(calls, 1);
  assert.equal(writer.error, undefined);
});

test('openEventWriter() lets no control characters through', async () => {
  const { clock, open, events } = given();
  await using writer = open();
  writer.update([state('a', 'a\u001b[31m\nb')]);
  await clock.advance(1000);
  assert.equal(events()[0].note, 'a\\u001b[31m\\nb. Fix it');
});
