// The source of Kubermatic: its Clusters, the Services of their control planes that nodeport-proxy would expose, and, for
// apps and DNS, the nodes of the user clusters.

import type { SourceOptions } from '../config/config.ts';
import { openReflector } from '../kube/reflector.ts';
import type { KeptService } from './kept-service.ts';
import {
  ADMIN_SECRET,
  API_SERVICE,
  apiServiceOf,
  type KubermaticOptions,
  kubermaticCluster,
  kubermaticService,
} from './kubermatic-cluster.ts';
import { type KubermaticFields, keepKubermaticCluster, kubermaticClusters } from './kubermatic-object.ts';
import { observationOf } from './made-cluster.ts';
import { type FollowedCluster, type NodeState, type NodeWatches, openNodeWatches } from './node-watches.ts';
import { exposureOf, PROXY_ANNOTATIONS } from './nodeport-proxy.ts';
import { rememberClusters } from './remember-clusters.ts';
import { openServiceBackends, type ServiceBackends } from './service-backends.ts';
import type { PortChoice, ServiceLookup } from './service-lookup.ts';
import type { Observation, OpenSource } from './source.ts';
import { joinedState, watchState } from './watch-state.ts';

/** Everything that one Cluster, or one Service of it, is made of. The same object as long as all fields are the same. */
interface Subject {
  readonly fields: KubermaticFields;
  /** Absent for the Cluster itself. */
  readonly service: KeptService | undefined;
  readonly apiName: string;
  readonly apiPort: PortChoice;
  readonly nodes: NodeState | undefined;
  readonly rival: string | undefined;
}

export const openKubermatic: OpenSource<SourceOptions['kubermatic']> = (options, context, changed) => {
  const { kubeconfig, namespaces, selector, zone, via } = options;
  const { name: source, clock, wantsNodes = false, former = [] } = context;
  const api = context.kubeApi({ kubeconfig, context: options.context });
  const make = rememberClusters<Subject>((subject, lookup) => made(subject, lookup, { source, zone, via }));
  let subjects: ReadonlyMap<string, Subject> = new Map();
  let last: Observation | undefined;
  const onChange = () => {
    last = undefined;
    changed();
  };
  const reflector = openReflector(
    api,
    kubermaticClusters,
    {
      ...(selector !== undefined && { labelSelector: selector }),
      versions: [kubermaticClusters.version],
      keep: keepKubermaticCluster,
      ...(clock && { clock }),
    },
    () => {
      followNodes();
      onChange();
    },
  );
  const backends = openServiceBackends(
    api,
    { source, namespaces, via, annotations: PROXY_ANNOTATIONS, clock },
    onChange,
  );
  const needsNodes = zone !== undefined || wantsNodes;
  const nodes = openNodeWatches({ management: api, clock, openClient: context.openClient }, onChange);

  /** Its Clusters have no namespace; their control planes have. */
  function clusters(): readonly KubermaticFields[] {
    const all = [...reflector.objects.values()];
    return namespaces === undefined ? all : all.filter(({ namespace }) => namespaces.includes(namespace));
  }

  function followNodes(): void {
    if (!needsNodes || !reflector.synced) return;
    const saved = new Map(former.map(cluster => [cluster.origin.object?.uid, cluster.controlPlane?.nodes]));
    const followed = clusters().map(({ object: { name, uid }, namespace }): [string, FollowedCluster] => {
      const secret = { namespace, secret: ADMIN_SECRET, keys: ['kubeconfig'] };
      return [name, { uid, secret, last: saved.get(uid) }];
    });
    nodes.update(new Map(followed));
  }

  function observe(): Observation {
    const own = watchState(source, [{ what: 'Clusters of Kubermatic', reflector }]);
    return observationOf(joinedState(own, backends.state), () => {
      subjects = subjectsOf(clusters(), backends, nodes, subjects);
      return make(subjects, backends);
    });
  }

  return {
    name: source,
    observe: () => (last ??= observe()),
    async [Symbol.asyncDispose]() {
      const all = [reflector, backends, nodes];
      await Promise.all(all.map(each => each[Symbol.asyncDispose]()));
    },
  };
};

function made(subject: Subject, lookup: ServiceLookup, options: KubermaticOptions) {
  const { fields, service, apiName, apiPort, nodes, rival } = subject;
  const api = { name: apiName, port: apiPort };
  return service === undefined
    ? kubermaticCluster(fields, api, nodes, rival, lookup, options)
    : kubermaticService(fields, service, api, lookup, options);
}

function subjectsOf(
  clusters: readonly KubermaticFields[],
  { services }: ServiceBackends,
  nodes: NodeWatches,
  before: ReadonlyMap<string, Subject>,
): ReadonlyMap<string, Subject> {
  const exposed = exposedByNamespace(services);
  const owners = ownersOf(clusters);
  const all = new Map<string, Subject>();
  const add = (key: string, subject: Subject) => {
    const known = before.get(key);
    all.set(key, known !== undefined && isSame(known, subject) ? known : subject);
  };
  for (const fields of clusters) {
    const { object, namespace } = fields;
    const owner = owners.get(namespace);
    const rival = owner === fields ? undefined : owner?.object.name;
    const own = rival === undefined ? (exposed.get(namespace) ?? []) : [];
    const hasUsual = services.get(`${namespace}/${API_SERVICE}`)?.service !== undefined;
    const api = apiServiceOf(fields, own, hasUsual);
    const common = { fields, apiName: api.name, apiPort: api.port };
    add(object.name, { ...common, service: undefined, nodes: nodes.of(object.name), rival });
    for (const service of own)
      add(`${namespace}/${service.name}`, { ...common, service, nodes: undefined, rival: undefined });
  }
  return all;
}

/** Those that ask for anything that we do, or have something wrong. */
function exposedByNamespace(
  services: ServiceBackends['services'],
): ReadonlyMap<string, readonly KeptService[]> {
  const all = new Map<string, KeptService[]>();
  for (const { service } of services.values()) {
    if (service === undefined || !service.annotations.has('expose')) continue;
    const { hosts, isTunneled, problems } = exposureOf(service);
    if (hosts.size === 0 && !isTunneled && problems.length === 0) continue;
    const list = all.get(service.namespace);
    if (list === undefined) all.set(service.namespace, [service]);
    else list.push(service);
  }
  return all;
}

/** By namespace: the Cluster whose name it has, else the oldest. A status could name the namespace of another Cluster. */
function ownersOf(clusters: readonly KubermaticFields[]): ReadonlyMap<string, KubermaticFields> {
  const owners = new Map<string, KubermaticFields>();
  const rank = ({ object, namespace }: KubermaticFields) =>
    `${namespace === `cluster-${object.name}` ? 0 : 1} ${object.createdAt} ${object.uid}`;
  for (const fields of clusters) {
    const owner = owners.get(fields.namespace);
    if (owner === undefined || rank(fields) < rank(owner)) owners.set(fields.namespace, fields);
  }
  return owners;
}

function isSame(a: Subject, b: Subject): boolean {
  return (Object.keys(a) as (keyof Subject)[]).every(key => a[key] === b[key]);
}
