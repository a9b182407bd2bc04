// The source of HyperShift's HostedClusters. `namespaces` and `selector` choose HostedClusters; Services and Routes are
// read everywhere, since each control plane has a namespace of its own.

import type { Cluster } from '../cluster/cluster.ts';
import { CLUSTER_ID, CLUSTER_ID_WORDS } from '../cluster/cluster-id.ts';
import type { Finding } from '../cluster/finding.ts';
import type { SourceOptions, WatchOptions } from '../config/config.ts';
import { DNS_LABEL, DNS_LABEL_WORDS } from '../config/names.ts';
import { mustBe, quote } from '../config/reading.ts';
import { openReflector } from '../kube/reflector.ts';
import { narrowRanges, readRangeList, readRangeText } from './allow-ranges.ts';
import {
  HOSTED_ROUTES,
  type HostedClusterFields,
  hostedClusters,
  keepHostedCluster,
  keepRoute,
  openShiftRoutes,
  readHostedCluster,
} from './hosted-cluster.ts';
import { type HostedControlPlane, joinControlPlanes } from './hosted-control-planes.ts';
import { hostedRoutes } from './hosted-routes.ts';
import { isSet } from './json-fields.ts';
import { type MadeCluster, observationOf } from './made-cluster.ts';
import { rememberClusters } from './remember-clusters.ts';
import { type Report, reportTo } from './report.ts';
import { openServiceBackends } from './service-backends.ts';
import type { ServiceLookup } from './service-lookup.ts';
import type { Observation, OpenSource } from './source.ts';
import { joinedState, watchState } from './watch-state.ts';

export const openHypershift: OpenSource<SourceOptions['hypershift']> = (options, context, changed) => {
  const { kubeconfig, context: kubeContext, namespaces, selector, via } = options;
  const { name: source, clock } = context;
  const api = context.kubeApi({ kubeconfig, context: kubeContext });
  const make = rememberClusters<HostedControlPlane>((each, lookup) =>
    hostedCluster(each, lookup, { source, via }),
  );
  const timing = clock && { clock };

  let last: Observation | undefined;
  let controlPlanes: ReadonlyMap<string, HostedControlPlane> = new Map();
  const onChange = () => {
    last = undefined;
    changed();
  };
  const ofClusters = openReflector(
    api,
    hostedClusters,
    {
      ...(namespaces && { namespaces }),
      ...(selector !== undefined && { labelSelector: selector }),
      versions: [hostedClusters.version],
      keep: keepHostedCluster,
      ...timing,
    },
    onChange,
  );
  const ofRoutes = openReflector(
    api,
    openShiftRoutes,
    { labelSelector: HOSTED_ROUTES, keep: keepRoute, ...timing },
    onChange,
  );
  const backends = openServiceBackends(api, { source, via, clock }, onChange);

  function observe(): Observation {
    const own = watchState(source, [
      { what: 'HostedClusters of HyperShift', reflector: ofClusters },
      { what: 'Routes of OpenShift', reflector: ofRoutes },
    ]);
    return observationOf(joinedState(own, backends.state), () => {
      controlPlanes = joinControlPlanes(ofClusters.objects, ofRoutes.objects, controlPlanes);
      return make(controlPlanes, backends);
    });
  }

  return {
    name: source,
    observe: () => (last ??= observe()),
    async [Symbol.asyncDispose]() {
      await Promise.all([ofClusters, ofRoutes, backends].map(each => each[Symbol.asyncDispose]()));
    },
  };
};

interface HostedClusterOptions extends Pick<WatchOptions, 'via'> {
  /** `origin.source` of the cluster. */
  readonly source: string;
}

/** One HostedCluster → its cluster and findings. Pure. */
function hostedCluster(
  controlPlane: HostedControlPlane,
  lookup: ServiceLookup,
  { source, via }: HostedClusterOptions,
): MadeCluster {
  const fields = readHostedCluster(controlPlane.object);
  const { object } = fields;
  // A cluster name has one dot; the name of the control plane namespace has the same hyphens.
  const name = `${object.namespace}.${object.name.replaceAll('.', '-')}`;
  const origin = { source, object };
  const findings: Finding[] = [];
  const report = reportTo(findings, name, origin);
  if (!mayBeServed(controlPlane, fields, report)) return { findings };
  const id = clusterId(fields, report);
  const allow = narrowRanges(
    readRangeList(fields.allowedCidrBlocks, 'spec.networking.apiServer.allowedCIDRBlocks', report),
    readRangeText(fields.allow, 'annotation causeway.dev/allow', report),
  );
  const cluster: Cluster = {
    name,
    ...(id !== undefined && { id }),
    origin,
    ...(allow !== undefined && { allow }),
    limits: {},
    identityRequired: false,
    routes: hostedRoutes(controlPlane, fields, lookup, via, report),
    controlPlane: {
      isPaused: fields.isPaused,
      kubeconfig: {
        namespace: object.namespace,
        secret: fields.adminSecret ?? `${object.name}-admin-kubeconfig`,
        keys: ['kubeconfig'],
      },
      servingCertificate: {
        namespace: controlPlane.namespace,
        secret: 'kas-server-crt',
        certKey: 'tls.crt',
        keyKey: 'tls.key',
      },
    },
  };
  return { cluster, findings };
}

function mayBeServed(
  { namespace, owner }: HostedControlPlane,
  { isPrivate }: HostedClusterFields,
  report: Report,
): boolean {
  if (!DNS_LABEL.test(namespace)) {
    const text = `its control plane namespace ${quote(namespace)} cannot exist, so it is not served`;
    const fix = `Choose names that are together ${DNS_LABEL_WORDS}`;
    report('error', 'ServiceMissing', text, fix);
    return false;
  }
  if (owner !== undefined) {
    const text = `its control plane namespace '${namespace}' is that of HostedCluster '${owner}', which is older, so it is not served`;
    report('error', 'NameClaimed', text, 'Create it with another name');
    return false;
  }
  if (isPrivate) {
    const text = 'its endpoints are private (spec.platform), so it is not served';
    report('info', 'EndpointsPrivate', text, 'None if that is intended; else choose PublicAndPrivate');
    return false;
  }
  return true;
}

function clusterId({ clusterId: given, object }: HostedClusterFields, report: Report): string | undefined {
  if (typeof given === 'string' && CLUSTER_ID.test(given)) return given;
  const fault = isSet(given) ? mustBe(CLUSTER_ID_WORDS, given) : 'is not set';
  report(
    'warning',
    'IdMissing',
    `spec.clusterID ${fault}, so its nodes cannot be served by id`,
    `HyperShift sets it: see kubectl describe hostedcluster ${object.name} -n ${object.namespace}`,
  );
  return undefined;
}
