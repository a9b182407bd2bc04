// A world for the contract of sources in Kubernetes: an API server in memory, and time that the suite moves.

import assert from 'node:assert/strict';
import { memoryStore } from '../../../testbed/memory-kube-api.ts';
import { testClock } from '../../../testbed/test-clock.ts';
import type { Answer, MergePatch } from '../../kube/kube-api.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import { customResourceDefinitions, type Resource } from '../../kube/resources.ts';
import type { OpenSource } from '../source.ts';
import type { SourceServer, SourceWorld } from './source-world.ts';

export interface KubeSourceCase<Options> {
  readonly open: OpenSource<Options>;
  readonly options: Options;
  /** Of the objects that clusters are made of. */
  readonly resource: Resource<KubeObject>;
  /** Absent for built-in resources. */
  readonly definition?: KubeObject;
  /** Definitions of other resources that it reads. They stay. */
  readonly otherDefinitions?: readonly KubeObject[];
  readonly clusterName: (key: string) => string;
  readonly object: (key: string) => KubeObject;
  /** What else a cluster needs, such as its Service and slices. Stays where the object is deleted. */
  readonly beside: (key: string) => readonly (readonly [Resource<KubeObject>, KubeObject])[];
  /** Changes the object so that the cluster changes. */
  readonly change: MergePatch;
  /** Objects of the resource that are wrong. */
  readonly broken: readonly KubeObject[];
}

const TOUCH: MergePatch = { metadata: { labels: { touched: 'yes' } } };
/** What a source may call; the suite's own calls always work. */
const READS: ReadonlySet<string> = new Set(['get', 'list', 'watch', 'discover']);

export function kubeWorld<Options>(one: KubeSourceCase<Options>): SourceWorld {
  const { resource, definition, otherDefinitions = [], object } = one;
  const store = memoryStore(...(definition === undefined ? [] : [definition]), ...otherDefinitions);
  const clock = testClock();
  const api = store.client('test');
  const merge = async (key: string, patch: MergePatch) => {
    const { namespace, name } = object(key).metadata;
    done(await api.merge(resource, namespace, name, patch));
  };
  const server: SourceServer = {
    fail(fault) {
      store.fault = fault && (method => (READS.has(method) ? fault : undefined));
      if (fault !== undefined) store.cutWatches({ why: 'failed', fault });
    },
    cutWatches: () => store.cutWatches(),
    forget: () => store.forget(),
    ...(definition && {
      definition: {
        create: async () => done(await api.create(customResourceDefinitions, definition)),
        remove: async () => done(await api.remove(customResourceDefinitions, definition)),
      },
    }),
  };
  /** The samples have UIDs, and apply refuses to create an object with one. */
  const put = async (of: Resource<KubeObject>, given: KubeObject) => {
    const created = await api.create(of, given);
    if (created.ok || created.fault.status !== 409) return done(created);
    done(await api.apply(of, given));
  };
  return {
    open: changed =>
      one.open(
        one.options,
        { name: 'under-test', folder: '/', kubeApi: () => store.client(), clock },
        changed,
      ),
    advance: ms => clock.advance(ms),
    async create(key) {
      for (const [of, other] of one.beside(key)) await put(of, other);
      await put(resource, object(key));
      return one.clusterName(key);
    },
    change: key => merge(key, one.change),
    touch: key => merge(key, TOUCH),
    async remove(key) {
      const { apiVersion, kind, metadata } = object(key);
      const { namespace, name } = metadata;
      const identity = {
        apiVersion,
        kind,
        metadata: { name, ...(namespace !== undefined && { namespace }) },
      };
      done(await api.remove(resource, identity));
    },
    async createBroken() {
      for (const each of one.broken) await put(resource, each);
    },
    server,
  };
}

function done(answer: Answer<unknown>): void {
  assert.ok(answer.ok, answer.ok ? '' : answer.fault.message);
}
