// What every output does, whatever it writes. With an API server its objects are also applied for real; without one
// only what can be said by looking at them is checked.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Cluster } from '../cluster/cluster.ts';
import { sampleCluster, sampleOrigin, sampleRoute } from '../cluster/clusters.samples.ts';
import { keyOf } from '../kube/kept-objects.ts';
import { type KubeApi, wordsOf } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { type Resource, resource } from '../kube/resources.ts';
import { plan } from '../plan/plan.ts';
import { resourceKey } from './compare-objects.ts';
import type { Desired, Output } from './output.ts';
import { tenant } from './outputs.samples.ts';
import { ownObject } from './own-object.ts';

export interface OutputSubject extends AsyncDisposable {
  /** Of an API server that serves all resources of the output. */
  readonly api: KubeApi;
}

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const namespaces: Resource<KubeObject> = resource('v1', 'namespaces', 'Namespace');

/** Clusters that outputs tend to confuse, or whose hosts are unusual. */
function allClusters(): Cluster[] {
  const service = (namespace: string, name: string, port: number) => ({ namespace, name, port });
  const long = 'l'.repeat(63);
  return [
    tenant('kamaji.clastix.io/v1alpha1', 'n', 'plain'),
    // All of these are the same once the dot is replaced.
    tenant('kamaji.clastix.io/v1alpha1', 'n', 'a-b'),
    tenant('kamaji.clastix.io/v1alpha1', 'n-a', 'b', {
      routes: [sampleRoute({ hosts: ['b.lab'], service: service('n-a', 'b', 6443) })],
    }),
    sampleCluster('n-a-b', {
      origin: sampleOrigin('services', 'n', 'svc'),
      routes: [sampleRoute({ hosts: ['svc.lab'], service: service('n', 'svc', 443) })],
    }),
    tenant('steward.butlerlabs.dev/v1alpha1', long, `${long}2`.slice(1), {
      routes: [sampleRoute({ hosts: ['long.lab'], service: service(long, long, 6443) })],
    }),
    sampleCluster('wild', {
      origin: sampleOrigin('services', 'n', 'wild'),
      routes: [
        sampleRoute({
          kind: 'apps-https',
          hosts: ['*.apps.lab', 'a.b.lab'],
          service: service('n', 'wild', 443),
        }),
        sampleRoute({
          kind: 'own',
          hosts: [`${long}.lab`, 'odd_name.lab'],
          service: service('n-a', 'own', 65535),
        }),
      ],
    }),
    sampleCluster('of-file', { routes: [sampleRoute({ hosts: ['file.lab'] })] }),
    sampleCluster('hostless', {
      origin: sampleOrigin('services', 'n', 'hostless'),
      routes: [sampleRoute({ service: service('n', 'hostless', 443) })],
    }),
    sampleCluster('routeless', { origin: sampleOrigin('services', 'n', 'routeless') }),
  ];
}

/** Gives clusters what this output needs. Objects then do not depend on who has won a host. */
type Prepare = (clusters: Cluster[]) => Cluster[];

export function outputContract(
  name: string,
  newOutput: () => Output,
  open?: () => Promise<OutputSubject>,
  options: { readonly skip?: string | false; readonly timeout?: number; readonly prepare?: Prepare } = {},
): void {
  const { prepare = clusters => clusters, ...rest } = options;
  const sampleClusters = () => prepare(allClusters());
  describe(`${name} is an Output`, rest, () => {
    const desired = (clusters: readonly Cluster[], output = newOutput()) => output.desired(plan(clusters));

    test('it writes only the resources that it names', () => {
      const output = newOutput();
      const known = new Set(output.resources.map(resourceKey));
      const { objects } = desired(sampleClusters(), output);
      assert.ok(objects.length > 0);
      for (const { resource, object } of objects) {
        assert.ok(known.has(resourceKey(resource)));
        assert.equal(object.kind, resource.kind);
      }
    });

    test('names are unique and legal', () => {
      const { objects } = desired(sampleClusters());
      const keys = objects.map(({ resource, object }) => `${resourceKey(resource)} ${keyOf(object)}`);
      assert.equal(new Set(keys).size, keys.length);
      for (const { object } of objects) {
        assert.match(object.metadata.name, NAME);
        assert.ok(object.metadata.name.length <= 253);
      }
    });

    test('the same clusters give the same objects, in whatever order they come', () => {
      const clusters = sampleClusters();
      const expected = textOf(desired(clusters));
      assert.deepEqual(textOf(desired(sampleClusters())), expected);
      assert.deepEqual(textOf(desired(clusters.toReversed())), expected);
      const output = newOutput();
      desired(clusters.slice(3), output);
      assert.deepEqual(textOf(desired(clusters, output)), expected);
    });

    test('what is asked leaves the plan as it was, and an unchanged cluster gives the same objects', () => {
      const clusters = sampleClusters();
      const before = JSON.stringify(clusters);
      const output = newOutput();
      const [first, second] = [desired(clusters, output), desired(clusters, output)];
      assert.equal(JSON.stringify(clusters), before);
      assert.ok(first.objects.every((each, i) => each === second.objects[i]));
    });

    test('a cluster that is taken away takes its own objects along, and no others', () => {
      const clusters = sampleClusters();
      const all = desired(clusters).objects;
      for (const gone of clusters) {
        const left = desired(clusters.filter(each => each !== gone)).objects;
        const expected = all.filter(({ cluster }) => cluster !== gone);
        assert.deepEqual(
          left.map(({ object }) => object),
          expected.map(({ object }) => object),
          gone.name,
        );
      }
    });

    // An output that needs other clusters than these goes by ids.
    if (options.prepare === undefined) {
      test('the loser of a host gets nothing for it', () => {
        const winner = tenant('kamaji.clastix.io/v1alpha1', 'n', 'winner');
        const host = winner.routes[0].hosts[0];
        const loser = sampleCluster('m.loser', {
          origin: sampleOrigin('services', 'm', 'loser', -1e9),
          routes: [sampleRoute({ hosts: [host], service: { namespace: 'm', name: 'loser', port: 1 } })],
        });
        const { objects } = desired([winner, loser]);
        assert.ok(objects.some(({ cluster }) => cluster.name === winner.name));
        assert.ok(objects.every(({ cluster }) => cluster.name !== loser.name));
      });
    }

    if (open === undefined) return;
    describe('with an API server', () => {
      let subject: OutputSubject;
      before(async () => {
        subject = await open();
      });
      after(() => subject?.[Symbol.asyncDispose]());

      test('its objects are accepted', async () => {
        const { api } = subject;
        const { objects } = desired(sampleClusters());
        for (const namespace of new Set(objects.map(({ object }) => object.metadata.namespace ?? ''))) {
          const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } };
          await api.apply(namespaces, object, { force: true });
        }
        for (const each of objects) {
          const own = ownObject(each, 'causeway-system.contract');
          const applied = await api.apply(each.resource, own, { force: true });
          assert.ok(applied.ok, applied.ok ? '' : `${keyOf(own)}: ${wordsOf(applied.fault)}`);
        }
      });
    });
  });
}

function textOf({ objects, findings }: Desired): string[] {
  return [...objects.map(({ object }) => object), ...findings].map(each => JSON.stringify(each)).toSorted();
}
