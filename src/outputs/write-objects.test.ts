import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { definitionOf } from '../kube/definition.samples.ts';
import type { KubeApi, KubeFault } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { ingresses, newIngress } from './ingress.ts';
import { ingressRouteTcps, newIngressRouteTcp } from './ingress-route-tcp.ts';
import { objectName } from './object-name.ts';
import type { Output } from './output.ts';
import { tenant } from './outputs.samples.ts';
import {
  bed,
  codesOf,
  INSTANCE,
  type Ingress,
  ingressKey,
  kamaji,
  peekIngress,
  sampleOutput,
  writesOf,
} from './write-objects.samples.ts';

const names = ['a', 'b', 'c'];

test('an ObjectWriter writes what is desired with our labels, and does not repeat it', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  const clusters = [kamaji('a'), kamaji('b')];
  one.write(clusters);
  await settle();
  const { metadata, spec } = peekIngress(store, 'a');
  assert.deepEqual(metadata.labels, {
    'app.kubernetes.io/managed-by': 'causeway',
    'causeway.dev/cluster': 'tenants.a',
    'causeway.dev/instance': INSTANCE,
  });
  assert.deepEqual(metadata.annotations, {
    'haproxy.org/ssl-passthrough': 'true',
    'causeway.dev/source': 'kamaji',
  });
  assert.deepEqual(metadata.ownerReferences, [
    {
      apiVersion: 'kamaji.clastix.io/v1alpha1',
      kind: 'TenantControlPlane',
      name: 'a',
      uid: 'uid-tenants.a',
    },
  ]);
  assert.equal(spec.rules.length, 2);
  for (let i = 0; i < 5; i++) {
    one.write([...clusters]);
    await settle(60_000);
  }
  assert.deepEqual(writesOf(store, names), ['apply a', 'apply b']);
  assert.deepEqual([codesOf(one), one.writer.error], [[], undefined]);
});

test('an ObjectWriter reports that nobody serves an object, from the time that is named for it', async () => {
  const { clock, replica, settle } = bed();
  const from = clock.date().getTime() + 60_000;
  const refused = { ...ingresses, refusalOf: () => ({ text: 'nobody reads it', fix: 'Start one', from }) };
  await using one = replica();
  one.write([kamaji('a')], {}, { ...sampleOutput, resources: [refused] });
  await settle(59_000);
  assert.deepEqual(codesOf(one), []);
  await settle(1000);
  assert.deepEqual(codesOf(one), ['tenants.a OutputRejected']);
  const [{ text }] = one.writer.findings();
  assert.match(text, /^Ingress 'tenants\/.*': nobody reads it$/);
});

test('an ObjectWriter that starts again changes nothing', async () => {
  const { store, replica, settle } = bed();
  const clusters = [kamaji('a'), kamaji('b')];
  for (let i = 0; i < 3; i++) {
    await using one = replica();
    one.write(clusters);
    await settle(40_000);
  }
  assert.deepEqual(writesOf(store, names), ['apply a', 'apply b']);
});

test('an ObjectWriter applies a change, takes back what it no longer states, and leaves the fields of others', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('a'), kamaji('b')]);
  await settle();
  const { namespace, name } = peekIngress(store, 'a').metadata;
  await store
    .client('cert-manager')
    .merge(ingresses, namespace, name, { metadata: { annotations: { theirs: '1' }, labels: { team: 'x' } } });
  await settle();
  assert.equal(store.writes.filter(write => write.startsWith('apply')).length, 2);
  const nginx = newIngress('ingress', { flavor: 'nginx', annotations: {} });
  one.write([kamaji('a'), kamaji('b')], {}, nginx);
  await settle();
  const { metadata, spec } = peekIngress(store, 'a');
  assert.deepEqual(metadata.annotations, {
    'nginx.ingress.kubernetes.io/ssl-passthrough': 'true',
    'causeway.dev/source': 'kamaji',
    theirs: '1',
  });
  assert.equal(metadata.labels?.team, 'x');
  assert.equal(spec.ingressClassName, 'nginx');
  // Also after a restart, when nobody remembers what was applied.
  await one[Symbol.asyncDispose]();
  await using two = replica();
  two.write([kamaji('a'), kamaji('b')], {}, newIngress('ingress', { flavor: 'generic', annotations: {} }));
  await settle();
  assert.deepEqual(peekIngress(store, 'a').metadata.annotations, {
    'causeway.dev/source': 'kamaji',
    theirs: '1',
  });
  assert.equal(peekIngress(store, 'a').spec.ingressClassName, undefined);
});

test('an ObjectWriter neither creates, changes nor removes what is to stay as it is', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('a')]);
  await settle();
  const nginx = newIngress('ingress', { flavor: 'nginx', annotations: {} });
  const desired: Output['desired'] = plan => {
    const { objects, findings } = nginx.desired(plan);
    return { objects: objects.map(each => ({ ...each, asItIs: true })), findings };
  };
  one.write([kamaji('a'), kamaji('b')], {}, { ...nginx, desired });
  await settle();
  assert.deepEqual(writesOf(store, names), ['apply a']);
  assert.equal(peekIngress(store, 'a').spec.ingressClassName, 'haproxy');
});

test('an ObjectWriter undoes what others change, and creates again what others delete', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('a'), kamaji('b')]);
  await settle();
  const client = store.client('kubectl');
  const { namespace, name } = peekIngress(store, 'a').metadata;
  await client.merge(ingresses, namespace, name, { spec: { ingressClassName: 'theirs' } });
  await client.remove(ingresses, peekIngress(store, 'b'));
  await settle();
  assert.equal(peekIngress(store, 'a').spec.ingressClassName, 'haproxy');
  assert.ok(peekIngress(store, 'b'));
  assert.deepEqual(codesOf(one), []);
  assert.deepEqual(writesOf(store, names).slice(2).toSorted(), ['apply a', 'apply b', 'merge a', 'remove b']);
});

test('an ObjectWriter knows what it wrote before a watch shows it', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const calls: string[] = [];
  store.gate = async label => {
    if (/^(get|apply|remove) ingresses$/.test(label)) calls.push(label);
    if (label === 'watch ingresses event') await released;
  };
  const nginx = newIngress('ingress', { flavor: 'nginx', annotations: {} });
  one.write([kamaji('a')]);
  await settle(5000);
  one.write([kamaji('a')], {}, nginx);
  await settle(5000);
  one.write([]);
  await settle(5000);
  one.write([kamaji('a')]);
  await settle(5000);
  release();
  await settle(60_000);
  assert.deepEqual(
    calls.map(label => label.split(' ')[0]),
    ['get', 'apply', 'apply', 'remove', 'get', 'apply'],
  );
  assert.equal(peekIngress(store, 'a').spec.ingressClassName, 'haproxy');
});

test('an ObjectWriter creates again what was deleted before the watch has shown it', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('a')]);
  await settle();
  const client = store.client('kubectl');
  let isHeld = true;
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  store.gate = async label => {
    if (label === 'watch ingresses event' && isHeld) await released;
  };
  one.write([kamaji('a'), kamaji('b')]);
  await settle();
  await client.remove(ingresses, peekIngress(store, 'b'));
  assert.equal(store.peek(ingressKey('b')), undefined);
  isHeld = false;
  release();
  await settle();
  assert.ok(peekIngress(store, 'b'));
});

test('an ObjectWriter retreats from a writer that undoes everything, and says so', async () => {
  const { store, replica, settle } = bed();
  const client = store.client('rival');
  await using one = replica();
  one.write([kamaji('a')]);
  await settle();
  const { namespace, name } = peekIngress(store, 'a').metadata;
  for (let i = 0; i < 600; i++) {
    if (peekIngress(store, 'a').spec.ingressClassName === 'haproxy') {
      await client.merge(ingresses, namespace, name, { spec: { ingressClassName: 'theirs' } });
    }
    await settle(500);
  }
  const applies = store.writes.filter(write => write.startsWith('apply')).length;
  assert.ok(applies > 10 && applies < 25, `${applies} in five minutes`);
  assert.deepEqual(codesOf(one), ['tenants.a ForeignWriter']);
  await settle(120_000);
  one.write([kamaji('a')]);
  await settle();
  assert.deepEqual(codesOf(one), []);
});

test('an ObjectWriter accepts that the API server keeps an object otherwise', async () => {
  const { store, replica, settle, clock } = bed();
  const client = store.client();
  // A webhook that adds an annotation of its own and changes one of ours.
  const api: KubeApi = {
    ...client,
    async apply(resource, object, options) {
      const annotations = { ...object.metadata.annotations, 'haproxy.org/ssl-passthrough': 'changed' };
      return client.apply(resource, { ...object, metadata: { ...object.metadata, annotations } }, options);
    },
  };
  await using one = replica({ api });
  one.write([kamaji('a')]);
  await settle(600_000);
  assert.deepEqual(writesOf(store, names), ['apply a']);
  assert.deepEqual(codesOf(one), []);
  assert.ok(clock.now() > 0);
});

test('an ObjectWriter removes the objects of clusters that are gone, and no others', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('a'), kamaji('b'), kamaji('c')]);
  await settle();
  one.write([kamaji('b')]);
  await settle();
  assert.deepEqual(store.keys(), [ingressKey('b')]);
  one.write([]);
  await settle();
  assert.deepEqual(store.keys(), []);
});

test('an ObjectWriter leaves an object of the same name alone that is not ours', async () => {
  const name = objectName('ingress', 'tenants.a');
  for (const labels of [
    undefined,
    { 'app.kubernetes.io/managed-by': 'causeway' },
    { 'causeway.dev/instance': INSTANCE },
    { 'app.kubernetes.io/managed-by': 'causeway', 'causeway.dev/instance': 'other.causeway' },
  ]) {
    const theirs = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'Ingress',
      metadata: { name, namespace: 'tenants', ...(labels && { labels }) },
    };
    const { store, replica, settle } = bed(theirs);
    const before = store.peek(ingressKey('a'));
    await using one = replica();
    one.write([kamaji('a'), kamaji('b')]);
    await settle();
    assert.deepEqual(store.peek(ingressKey('a')), before);
    assert.ok(peekIngress(store, 'b'));
    assert.deepEqual(codesOf(one), ['tenants.a ForeignObject']);
    const [finding] = one.writer.findings();
    assert.equal(finding.origin?.object?.name, 'a');
    assert.match(finding.fix, /kubectl delete ingresses\.networking\.k8s\.io --namespace tenants tenants-a-/);
    one.write([kamaji('b')]);
    await settle(60_000);
    assert.deepEqual(store.peek(ingressKey('a')), before);
    assert.deepEqual(codesOf(one), []);
    one.write([kamaji('a'), kamaji('b')]);
    await store.client('kubectl').remove(ingresses, before as Ingress);
    await settle(60_000);
    assert.deepEqual(codesOf(one), []);
    assert.equal(peekIngress(store, 'a').spec.rules.length, 2);
  }
});

test('an ObjectWriter does not touch an object that appears, or ceases to be ours, right before a write', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('b'), kamaji('c')]);
  await settle();
  const client = store.client('kubectl');
  const labels = { 'causeway.dev/instance': null };
  let meddling: Promise<void> | undefined;
  const meddle = async () => {
    const theirs = { ...peekIngress(store, 'b'), spec: { rules: [{ host: 'theirs.lab' }] } };
    const name = objectName('ingress', 'tenants.a');
    await client.create(ingresses, { ...theirs, metadata: { name, namespace: 'tenants' } });
    for (const each of ['b', 'c']) {
      await client.merge(ingresses, 'tenants', objectName('ingress', `tenants.${each}`), {
        metadata: { labels },
      });
    }
  };
  store.gate = async label => {
    const isWrite = label === 'apply ingresses' || label === 'remove ingresses';
    if (isWrite) await (meddling ??= meddle());
  };
  const nginx = newIngress('ingress', { flavor: 'nginx', annotations: {} });
  one.write([kamaji('a'), kamaji('b')], {}, nginx);
  await settle(60_000);
  assert.equal(peekIngress(store, 'a').spec.rules[0].host, 'theirs.lab');
  assert.equal(peekIngress(store, 'b').spec.ingressClassName, 'haproxy');
  assert.equal(peekIngress(store, 'c').spec.ingressClassName, 'haproxy');
  assert.deepEqual(codesOf(one).toSorted(), ['tenants.a ForeignObject', 'tenants.b ForeignObject']);
  assert.ok(store.writes.every(write => !write.startsWith('remove')));
});

test('only the replica that leads writes, and each change is written once', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  await using two = replica({ isLeader: false });
  const both = (...all: readonly string[]) => {
    const clusters = all.map(name => kamaji(name));
    for (const each of [one, two]) each.write(clusters);
  };
  both('a', 'b');
  await settle();
  assert.deepEqual(writesOf(store, names), ['apply a', 'apply b']);
  one.isLeader = false;
  both('b', 'c');
  await settle();
  assert.equal(store.writes.length, 2);
  two.isLeader = true;
  two.writer.wake();
  await settle();
  assert.deepEqual(writesOf(store, names).slice(2).toSorted(), ['apply c', 'remove a']);
  two.isLeader = false;
  one.isLeader = true;
  one.writer.wake();
  await settle(60_000);
  assert.equal(store.writes.length, 4);
});

test('an ObjectWriter that loses the lease stops at once, also between a look and its write', async () => {
  for (const moment of ['get ingresses', 'get ingresses answered']) {
    const { store, replica, settle } = bed();
    await using one = replica();
    store.gate = async label => {
      if (label === moment) one.isLeader = false;
    };
    one.write(names.map(name => kamaji(name)));
    await settle(60_000);
    assert.deepEqual(store.writes, [], moment);
    store.gate = async () => {};
    one.isLeader = true;
    one.writer.wake();
    await settle();
    assert.deepEqual(writesOf(store, names).toSorted(), ['apply a', 'apply b', 'apply c'], moment);
  }
});

test('an ObjectWriter makes at most eight calls at once', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  let [now, most] = [0, 0];
  store.gate = async label => {
    if (!/^(get|apply|remove) ingresses/.test(label)) return;
    if (label.endsWith('answered')) now--;
    else most = Math.max(most, ++now);
    await new Promise(resolve => setImmediate(resolve));
  };
  const many = Array.from({ length: 100 }, (_, i) => kamaji(`t${i}`));
  const isAt = async (count: number) => {
    while (store.keys().length !== count) await settle(100);
  };
  one.write(many);
  await isAt(100);
  one.write([]);
  await isAt(0);
  assert.equal(store.writes.length, 200);
  assert.equal(most, 8);
});

/** Refuses to apply or remove the object for cluster `a`. */
function refusing(api: KubeApi, fault: () => KubeFault | undefined): KubeApi {
  const bad = objectName('ingress', 'tenants.a');
  const answer = (object: KubeObject) => {
    const found = object.metadata.name === bad ? fault() : undefined;
    return found && ({ ok: false, fault: found } as const);
  };
  return {
    ...api,
    apply: async (resource, object, options) =>
      answer(object) ?? (await api.apply(resource, object, options)),
    remove: async (resource, object) => answer(object) ?? (await api.remove(resource, object)),
  };
}

test('one object that fails holds up no other, is shown with the API server’s words, and is tried again', async () => {
  for (const [status, reason] of [
    [409, 'Conflict'],
    [403, 'Forbidden'],
    [422, 'Invalid'],
    [500, 'InternalError'],
    [0, 'Timeout'],
  ] as const) {
    const { store, replica, settle } = bed();
    let calls = 0;
    let isBad = true;
    const api = refusing(store.client(), () => {
      if (!isBad) return undefined;
      calls++;
      return { status, reason, message: 'no, since …' };
    });
    await using one = replica({ api });
    one.write(names.map(name => kamaji(name)));
    await settle();
    assert.deepEqual(writesOf(store, names), ['apply b', 'apply c'], reason);
    await settle(10_000);
    assert.deepEqual(codesOf(one), ['tenants.a OutputRejected'], reason);
    assert.match(
      one.writer.findings()[0].text,
      new RegExp(`Ingress 'tenants/tenants-a-.*${reason}: no, since …`),
    );
    await settle(290_000);
    assert.ok(calls > 8 && calls < 20, `${reason}: ${calls} in five minutes`);
    isBad = false;
    await settle(30_000);
    assert.deepEqual(codesOf(one), [], reason);
    assert.deepEqual(writesOf(store, names).slice(2), ['apply a'], reason);
    isBad = true;
    one.write([]);
    await settle(10_000);
    assert.deepEqual(store.keys(), [ingressKey('a')], reason);
    assert.deepEqual(codesOf(one), ['OutputRejected'], reason);
    isBad = false;
    await settle(30_000);
    assert.deepEqual(store.keys(), [], reason);
    assert.deepEqual(codesOf(one), [], reason);
  }
});

test('an object that is changed after it failed is tried at once', async () => {
  const { store, replica, settle } = bed();
  let isBad = true;
  const api = refusing(store.client(), () =>
    isBad ? { status: 422, reason: 'Invalid', message: 'no' } : undefined,
  );
  await using one = replica({ api });
  one.write([kamaji('a')]);
  await settle(120_000);
  isBad = false;
  one.write([kamaji('a', { id: 'other' })]);
  await settle(200);
  assert.ok(peekIngress(store, 'a'));
});

test('thousands of objects that fail are tried at most 20 times a second', async () => {
  const { store, replica, settle } = bed();
  let calls = 0;
  const client = store.client();
  const api: KubeApi = {
    ...client,
    apply: async () => {
      calls++;
      return { ok: false, fault: { status: 403, reason: 'Forbidden', message: 'no' } };
    },
  };
  await using one = replica({ api });
  one.write(Array.from({ length: 1200 }, (_, i) => kamaji(`t${i}`)));
  await settle(60_000);
  const before = calls;
  await settle(20_000);
  assert.ok(calls - before <= 440, `${calls - before} calls in 20 s`);
  assert.equal(one.writer.findings().length, 1200);
});

test('while the API server is away everything waits, and goes on when it is back', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('a')]);
  await settle();
  let calls = 0;
  store.fault = method => {
    calls++;
    return method === 'watch' ? undefined : { status: 0, reason: 'Unreachable', message: 'refused' };
  };
  one.write(Array.from({ length: 1000 }, (_, i) => kamaji(`t${i}`)));
  await settle(300_000);
  assert.ok(calls < 300, `${calls} calls in five minutes`);
  assert.match(one.writer.error ?? '', /Unreachable: refused/);
  assert.deepEqual(codesOf(one), []);
  store.fault = undefined;
  await settle(60_000);
  assert.equal(store.keys().length, 1000);
  assert.equal(one.writer.error, undefined);
});

test('nothing is written before the objects that exist are known', async () => {
  const { store, replica, settle } = bed();
  store.fault = method =>
    method === 'list' ? { status: 403, reason: 'Forbidden', message: 'no' } : undefined;
  await using one = replica();
  one.write([kamaji('a')]);
  await settle(60_000);
  assert.deepEqual(store.writes, []);
  assert.match(one.writer.error ?? '', /Forbidden/);
  store.fault = undefined;
  await settle(60_000);
  assert.deepEqual(writesOf(store, names), ['apply a']);
  assert.equal(one.writer.error, undefined);
});

test('objects of a paused cluster are neither created, changed nor removed', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('a'), kamaji('b')]);
  await settle();
  const controlPlane = { isPaused: true };
  const nginx = newIngress('ingress', { flavor: 'nginx', annotations: {} });
  one.write([kamaji('a', { controlPlane }), kamaji('b'), kamaji('c', { controlPlane })], {}, nginx);
  await settle();
  assert.equal(peekIngress(store, 'a').spec.ingressClassName, 'haproxy');
  assert.equal(peekIngress(store, 'b').spec.ingressClassName, 'nginx');
  assert.equal(store.peek(ingressKey('c')), undefined);
  // It has lost all of its hosts.
  one.write([kamaji('a', { controlPlane, routes: [] })], {}, nginx);
  await settle();
  assert.deepEqual(store.keys(), [ingressKey('a')]);
  // Its output is taken out of the file.
  one.write([kamaji('a', { controlPlane })], {}, newIngressRouteTcp('ingressRouteTCP', { entryPoints: [] }));
  await settle();
  assert.equal(peekIngress(store, 'a').spec.ingressClassName, 'haproxy');
  one.write([kamaji('a')], {}, nginx);
  await settle();
  assert.equal(peekIngress(store, 'a').spec.ingressClassName, 'nginx');
  one.write([]);
  await settle();
  assert.deepEqual(store.keys(), []);
});

test('objects of a source that cannot be read stay; of one that is not in the file any more they go', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('a'), kamaji('b')]);
  await settle();
  one.write([kamaji('a')], { complete: new Set() });
  await settle(3_600_000);
  assert.deepEqual(store.keys().toSorted(), [ingressKey('a'), ingressKey('b')].toSorted());
  one.write([], { complete: new Set(), configured: new Set() });
  await settle();
  assert.deepEqual(store.keys(), []);
});

test('after a start with an empty answer objects stay for five minutes, with a finding', async () => {
  const { store, replica, settle } = bed();
  {
    await using one = replica();
    one.write([kamaji('a'), kamaji('b')]);
    await settle();
  }
  await using two = replica();
  two.write([]);
  await settle(290_000);
  assert.equal(store.keys().length, 2);
  assert.deepEqual(codesOf(two), ['SourceEmpty']);
  assert.match(two.writer.findings()[0].text, /'kamaji'.* 2 objects exist/);
  // It could not be read for a moment: the time begins anew.
  two.write([], { complete: new Set() });
  await settle();
  assert.deepEqual(codesOf(two), []);
  two.write([]);
  await settle(290_000);
  assert.equal(store.keys().length, 2);
  await settle(11_000);
  assert.deepEqual(store.keys(), []);
  assert.deepEqual(codesOf(two), []);

  two.write([kamaji('a'), kamaji('b')]);
  await settle();
  two.write([]);
  await settle();
  assert.deepEqual(store.keys(), []);
});

test('an object without its source is removed only when nothing is in doubt', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write([kamaji('a'), kamaji('b')]);
  await settle();
  const { namespace, name } = peekIngress(store, 'a').metadata;
  const without = { metadata: { annotations: { 'causeway.dev/source': null } } };
  one.isLeader = false;
  await store.client('kubectl').merge(ingresses, namespace, name, without);
  one.write([kamaji('b')], { complete: new Set() });
  one.isLeader = true;
  one.writer.wake();
  await settle();
  assert.ok(peekIngress(store, 'a'));
  one.write([kamaji('b')]);
  await settle();
  assert.equal(store.peek(ingressKey('a')), undefined);
});

const definitions = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
};

test('a resource that is not served is a finding where an object needs it, and is waited for', async () => {
  const { store, replica, settle } = bed();
  const fromCluster = newIngress('ingress', { flavor: 'fromCluster', annotations: {} });
  const traefik = newIngressRouteTcp('ingressRouteTCP', { entryPoints: ['websecure'] });
  await using one = replica();
  one.write([kamaji('a')], {}, fromCluster);
  await settle(60_000);
  assert.deepEqual([codesOf(one), one.writer.error], [[], undefined]);
  one.write([kamaji('a'), kamaji('b')], {}, traefik);
  await settle(60_000);
  assert.deepEqual(codesOf(one), ['OutputCrdMissing']);
  assert.match(one.writer.findings()[0].text, /2 objects of 'ingressroutetcps\.traefik\.io'/);
  assert.equal(one.writer.error, undefined);
  await store.client('kubectl').create(definitions, definitionOf(ingressRouteTcps, ['v1alpha1']));
  await settle(120_000);
  assert.deepEqual(codesOf(one), []);
  const routes = () => store.keys().filter(key => key.startsWith('IngressRouteTCP/'));
  assert.equal(routes().length, 2);

  // Somebody deletes it, with all objects, and installs it again.
  await store.client('kubectl').remove(definitions, definitionOf(ingressRouteTcps, []));
  await settle(60_000);
  assert.deepEqual(codesOf(one), ['OutputCrdMissing']);
  await store.client('kubectl').create(definitions, definitionOf(ingressRouteTcps, ['v1alpha1']));
  await settle(120_000);
  assert.equal(routes().length, 2);
  assert.deepEqual(codesOf(one), []);
});

test('an ObjectWriter writes in the best version that is served', async () => {
  const { store, replica, settle } = bed(definitionOf(ingressRouteTcps, ['v1alpha1', 'v1alpha2']));
  const resource = { ...ingressRouteTcps, version: 'v1', versions: ['v1', 'v1alpha2', 'v1alpha1'] };
  const traefik = newIngressRouteTcp('ingressRouteTCP', { entryPoints: [] });
  await using one = replica();
  const write = (names: readonly string[]) => {
    const clusters = names.map(name => kamaji(name));
    one.write(
      clusters,
      {},
      {
        name: 'newer',
        resources: [resource],
        desired: plan => ({
          findings: [],
          objects: traefik.desired(plan).objects.map(each => ({ ...each, resource })),
        }),
      },
    );
  };
  write(['a']);
  await settle();
  const [key] = store.keys().filter(each => each.startsWith('IngressRouteTCP/'));
  assert.equal(store.peek(key)?.apiVersion, 'traefik.io/v1alpha2');
  await settle(60_000);
  assert.equal(store.writes.length, 1);
  write([]);
  await settle();
  assert.equal(store.peek(key), undefined);
});

test('what belongs to an output that is taken out of the file is removed', async () => {
  const { store, replica, settle } = bed(definitionOf(ingressRouteTcps, ['v1alpha1']));
  const traefik = newIngressRouteTcp('ingressRouteTCP', { entryPoints: ['websecure'] });
  const none = { name: 'none', resources: [], desired: () => ({ objects: [], findings: [] }) };
  const count = (kind: string) => store.keys().filter(key => key.startsWith(`${kind}/`)).length;
  const theirs = { ...peekable('theirs'), metadata: { name: 'theirs', namespace: 'tenants' } };
  await store.client('kubectl').create(ingresses, theirs);
  {
    await using one = replica();
    one.write([kamaji('a'), kamaji('b')]);
    await settle();
    assert.equal(count('Ingress'), 3);
    one.write([kamaji('a'), kamaji('b')], {}, traefik);
    await settle();
    assert.deepEqual([count('Ingress'), count('IngressRouteTCP')], [1, 2]);
    one.write([kamaji('a')], {}, sampleOutput);
    await settle();
    assert.deepEqual([count('Ingress'), count('IngressRouteTCP')], [2, 0]);
  }
  // While nobody ran, also where sources cannot be read.
  for (const status of [403, 500]) {
    await using two = replica();
    let calls = 0;
    store.fault = method => {
      calls++;
      return method === 'list' ? { status, reason: 'No', message: 'no' } : undefined;
    };
    two.write([], { complete: new Set() }, none);
    await settle(100_000);
    assert.equal(count('Ingress'), 2);
    assert.deepEqual(codesOf(two), []);
    if (status === 403) assert.ok(calls < 10);
  }
  store.fault = undefined;
  await using three = replica();
  three.write([], { complete: new Set() }, none);
  await settle();
  assert.deepEqual(
    store.keys().filter(key => key.startsWith('Ingress/')),
    ['Ingress/tenants/theirs'],
  );
});

test('an ObjectWriter looks only where the sources look, and cleans up where they no longer do', async () => {
  const { store, replica, settle } = bed();
  const inNamespace = (namespace: string) => tenant('kamaji.clastix.io/v1alpha1', namespace, 'x');
  const all = ['m', 'n', 'o'].map(inNamespace);
  const places = () => store.keys().map(key => key.split('/')[1]);
  const looked = new Set<string | undefined>();
  const client = store.client();
  const api: KubeApi = {
    ...client,
    list: (resource, options) => {
      looked.add(options.namespace);
      return client.list(resource, options);
    },
  };
  await using one = replica({ api });
  one.write(all.slice(0, 2), { namespaces: ['m', 'n'] });
  await settle();
  assert.deepEqual(places(), ['m', 'n']);
  assert.deepEqual(looked, new Set(['m', 'n']));
  one.write(all.slice(1), { namespaces: ['n', 'o'], complete: new Set() });
  await settle();
  assert.deepEqual(places(), ['n', 'o']);
  assert.deepEqual(looked, new Set(['m', 'n', 'o']));
  one.write(all, { namespaces: undefined });
  await settle();
  assert.deepEqual(places().toSorted(), ['m', 'n', 'o']);
  one.write(all.slice(0, 1), { namespaces: ['m'], complete: new Set() });
  await settle();
  assert.deepEqual(places(), ['m']);
  assert.equal(store.writes.length, 7);
});

function peekable(host: string): Ingress {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    metadata: { name: host, namespace: 'tenants' },
    spec: { rules: [{ host }] },
  };
}

test('an object that two clusters want is written for the first, and the other gets a finding', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write(
    [kamaji('a'), kamaji('b')],
    {},
    {
      name: 'same',
      resources: [ingresses],
      desired: ({ clusters }) => ({
        findings: [],
        objects: clusters.map(cluster => ({ resource: ingresses, cluster, object: peekable('same') })),
      }),
    },
  );
  await settle(60_000);
  assert.deepEqual(store.writes, ['apply Ingress/tenants/same']);
  assert.deepEqual(codesOf(one), ['tenants.b OutputRejected']);
});

test('an ObjectWriter that is disposed waits for the call under way, makes no other, and removes nothing', async () => {
  const { store, replica, settle } = bed();
  const one = replica();
  one.write([kamaji('a')]);
  await settle();
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  store.gate = async label => {
    if (label === 'apply ingresses') await held;
  };
  one.write(Array.from({ length: 20 }, (_, i) => kamaji(`t${i}`)));
  await settle();
  let isDisposed = false;
  const disposing = one[Symbol.asyncDispose]().then(() => (isDisposed = true));
  await settle();
  assert.ok(!isDisposed);
  release();
  await disposing;
  const changes = one.changes.count;
  one.write([]);
  one.writer.wake();
  await settle(600_000);
  assert.equal(store.keys().length, 9);
  assert.equal(one.changes.count, changes);
  assert.ok(store.peek(ingressKey('a')));
});

test('an ObjectWriter that is disposed between a look and its write does not write', async () => {
  const { store, replica, settle } = bed();
  const one = replica();
  let disposing: PromiseLike<void> | undefined;
  store.gate = async label => {
    if (label === 'get ingresses answered') disposing ??= one[Symbol.asyncDispose]();
  };
  one.write([kamaji('a')]);
  await settle(60_000);
  await disposing;
  assert.deepEqual(store.writes, []);
});

test('what has not begun is not done where the next plan no longer wants it', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  one.write(Array.from({ length: 20 }, (_, i) => kamaji(`t${i}`)));
  await settle(5000);
  assert.equal(store.keys().length, 20);
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  store.gate = async label => {
    if (label === 'remove ingresses') await held;
  };
  one.write([]);
  await settle();
  // The source has become unreadable, with eight calls under way.
  one.write([], { complete: new Set() });
  release();
  await settle(60_000);
  assert.equal(store.keys().length, 12);
});

test('whenever a replica dies, the next one completes what it began, without a second write', async () => {
  const clusters = names.map(name => kamaji(name));
  for (let moment = 0; moment < 40; moment++) {
    const { store, replica, settle } = bed();
    let calls = 0;
    let isDead = false;
    // A process that is dead makes no call, and hears no answer.
    store.gate = async label => {
      if (label.startsWith('watch')) return;
      if (calls++ === moment) isDead = true;
    };
    const client = store.client();
    const dead = new Promise<never>(() => {});
    const api = new Proxy(client, {
      get: (target, method: keyof KubeApi) =>
        ((...args: unknown[]) =>
          isDead
            ? dead
            : (target[method] as (...args: unknown[]) => Promise<unknown>)(...args).then(answer =>
                isDead ? dead : answer,
              )) as never,
    });
    const one = replica({ api });
    one.write(clusters);
    await settle();
    one.isLeader = false;
    store.gate = async () => {};
    await using two = replica();
    two.write(clusters);
    await settle(60_000);
    assert.deepEqual(store.keys().toSorted(), names.map(ingressKey).toSorted(), `dies at call ${moment}`);
    assert.deepEqual(writesOf(store, names).toSorted(), ['apply a', 'apply b', 'apply c']);
    assert.deepEqual(codesOf(two), []);
  }
});

test('a watch that is cut, expired or empty loses nothing and repeats nothing', async () => {
  const { store, replica, settle } = bed();
  await using one = replica();
  const clusters = names.map(name => kamaji(name));
  one.write(clusters);
  await settle();
  for (let i = 0; i < 20; i++) {
    if (i % 3 === 0) store.forget();
    store.cutWatches();
    await settle(1000);
  }
  assert.equal(store.writes.length, 3);
  // All are deleted while nobody watches: the list is empty, which a reflector does not believe at once.
  store.gate = async label => {
    if (label === 'watch ingresses') await settleForever;
  };
  store.cutWatches();
  await settle();
  const client = store.client('kubectl');
  for (const name of names) await client.remove(ingresses, peekIngress(store, name));
  store.forget();
  store.gate = async () => {};
  release();
  await settle(60_000);
  assert.deepEqual(store.keys().toSorted(), names.map(ingressKey).toSorted());
  assert.equal(store.writes.length, 9);
});

const { promise: settleForever, resolve: release } = Promise.withResolvers<void>();

/** One thing that happens, to one of four clusters. */
const anyStep = fc.record({
  what: fc.constantFrom(
    'plan',
    'plan',
    'lead',
    'nobody leads',
    'fail',
    'cut',
    'forget',
    'change',
    'delete',
    'disown',
    'restart',
    'wait',
  ),
  which: fc.nat(3),
  clusters: fc.subarray([0, 1, 2, 3]),
  flavor: fc.constantFrom('haproxy', 'nginx', 'cilium'),
  ms: fc.constantFrom(0, 50, 2000, 40_000),
} as const);

test('whatever happens in whatever order, in the end there is what is desired, and what is not ours is untouched', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 25 }), async steps => {
      const { store, replica, settle } = bed();
      const client = store.client('kubectl');
      const theirs = peekable('theirs');
      await client.create(ingresses, theirs);
      const before = store.peek('Ingress/tenants/theirs');
      let replicas = [replica(), replica({ isLeader: false })];
      let wanted = { clusters: [0], flavor: 'haproxy' as 'haproxy' | 'nginx' | 'cilium' };
      const disowned = new Set<number>();
      const write = () => {
        const output = newIngress('ingress', { flavor: wanted.flavor, annotations: {} });
        const clusters = wanted.clusters.map(i => kamaji(`t${i}`));
        // All of them are gone where nobody can tell that from a source that answers nothing.
        const sources = clusters.length === 0 ? { configured: new Set<string>() } : {};
        for (const each of replicas) each.write(clusters, sources, output);
      };
      write();
      for (const { what, which, clusters, flavor, ms } of steps) {
        const name = objectName('ingress', `tenants.t${which}`);
        const found = store.peek<Ingress>(`Ingress/tenants/${name}`);
        if (what === 'plan') {
          wanted = { clusters, flavor };
          write();
        } else if (what === 'lead') {
          for (const [i, each] of replicas.entries()) each.isLeader = i === which % 2;
        } else if (what === 'nobody leads') for (const each of replicas) each.isLeader = false;
        else if (what === 'fail') {
          const status = [0, 409, 500, 503][which];
          store.fault = method =>
            method === 'watch' ? undefined : { status, reason: 'Unreachable', message: 'no' };
        } else if (what === 'cut') store.cutWatches();
        else if (what === 'forget') store.forget();
        else if (what === 'restart') {
          await replicas[which % 2][Symbol.asyncDispose]();
          replicas = replicas.with(which % 2, replica({ isLeader: false }));
          write();
        } else if (found !== undefined && store.fault === undefined) {
          if (what === 'change')
            await client.merge(ingresses, 'tenants', name, { spec: { ingressClassName: 'theirs' } });
          if (what === 'delete') await client.remove(ingresses, found);
          if (what === 'disown') {
            await client.merge(ingresses, 'tenants', name, {
              metadata: { labels: { 'causeway.dev/instance': 'other' } },
            });
            disowned.add(which);
          }
          if (what === 'delete') disowned.delete(which);
        }
        for (const each of replicas) each.writer.wake();
        if (what !== 'fail' || ms > 0) await settle(ms);
        if (what === 'wait') store.fault = undefined;
      }
      store.fault = undefined;
      for (const [i, each] of replicas.entries()) each.isLeader = i === 0;
      for (const each of replicas) each.writer.wake();
      await settle(400_000);
      const expected = new Set([...wanted.clusters, ...disowned].map(i => ingressKey(`t${i}`)));
      assert.deepEqual(new Set(store.keys()), expected.add('Ingress/tenants/theirs'));
      for (const i of wanted.clusters) {
        if (disowned.has(i)) continue;
        const { spec, metadata } = peekIngress(store, `t${i}`);
        assert.equal(spec.ingressClassName, wanted.flavor);
        const annotations = Object.keys(metadata.annotations ?? {}).filter(key =>
          key.includes('passthrough'),
        );
        assert.equal(annotations.length, 1);
      }
      assert.deepEqual(store.peek('Ingress/tenants/theirs'), before);
      const codes = codesOf(replicas[0]).filter(code => !code.endsWith('ForeignWriter'));
      assert.deepEqual(
        codes.toSorted(),
        wanted.clusters
          .filter(i => disowned.has(i))
          .map(i => `tenants.t${i} ForeignObject`)
          .toSorted(),
      );
      for (const each of replicas) await each[Symbol.asyncDispose]();
    }),
    { numRuns: 200 },
  );
});
