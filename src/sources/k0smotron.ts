// The source of Clusters of k0smotron (k0smotron.io): control planes of k0s in Pods, with hosts for an ingress.

import { createHash } from 'node:crypto';
import type { Finding } from '../cluster/finding.ts';
import type { SourceOptions } from '../config/config.ts';
import { readHost } from '../config/host.ts';
import { type Resource, resource } from '../kube/resources.ts';
import { readRangeText } from './allow-ranges.ts';
import {
  type ClusterObject,
  clusterNameOf,
  commonFields,
  hasServiceName,
  keepClusterObject,
  toCluster,
} from './cluster-object.ts';
import { at, isSet, portAt, recordAt, textAt, textMapAt } from './json-fields.ts';
import type { MadeCluster } from './made-cluster.ts';
import { openObjectSource } from './object-source.ts';
import { acceptedHost, type Report, reportTo } from './report.ts';
import type { ServiceLookup } from './service-lookup.ts';
import { type RouteTarget, serviceRoute } from './service-route.ts';
import type { OpenSource } from './source.ts';

type K0smotronOptions = SourceOptions['k0smotron'];

export const k0smotronClusters: Resource<ClusterObject> = resource(
  'k0smotron.io/v1beta2',
  'clusters',
  'Cluster',
);
/** Both have the fields that we read. */
const VERSIONS = ['v1beta2', 'v1beta1'];
/** Defaults of the CustomResourceDefinition. */
const API_PORT = 30_443;
const KONNECTIVITY_PORT = 30_132;
const YAML =
  'spec: { ingress: { deploy: false, apiHost: "api.example.com", konnectivityHost: "konnectivity.example.com" } }';

export const openK0smotron: OpenSource<K0smotronOptions> = (options, context, changed) => {
  const { via } = options;
  const { name: source } = context;
  return openObjectSource(
    {
      what: 'Clusters of k0smotron',
      resource: k0smotronClusters,
      versions: VERSIONS,
      keep: keepK0smotronCluster,
      make: (object, lookup) => k0smotronCluster(object, lookup, { source, via }),
    },
    options,
    context,
    changed,
  );
};

export function keepK0smotronCluster(object: ClusterObject): ClusterObject {
  const ingress = { apiHost: true, konnectivityHost: true, className: true, annotations: true } as const;
  const service = { type: true, apiPort: true, konnectivityPort: true } as const;
  return keepClusterObject(object, { spec: { ingress, service } });
}

export function k0smotronCluster(
  given: ClusterObject,
  lookup: ServiceLookup,
  { source, via }: Pick<K0smotronOptions, 'via'> & { readonly source: string },
): MadeCluster {
  const fields = commonFields(given);
  const { object, isPaused } = fields;
  const { namespace, name } = object;
  const findings: Finding[] = [];
  const report = reportTo(findings, clusterNameOf(object), { source, object });
  if (!hasServiceName(fields, report)) return { findings };

  const { spec } = given;
  const hosts = hostsOf(spec, report);
  const allow = readRangeText(fields.allow, 'annotation causeway.dev/allow', report);
  const names = serviceNames(name, textAt(spec, 'service.type'));
  const context = { lookup, via, report };
  const target = (port: string, number: number): RouteTarget => ({
    namespace,
    names,
    ports: [port, number],
    number,
    missingFix: `k0smotron creates it: see the status of Cluster '${namespace}/${name}'`,
    portFix: `k0smotron creates that port: see spec.service of Cluster '${namespace}/${name}'`,
  });
  const api = target('api', portAt(spec, 'service.apiPort') ?? API_PORT);
  const routes = [serviceRoute('api', hosts.api === undefined ? [] : [hosts.api], api, context)];
  if (hosts.konnectivity !== undefined) {
    const port = portAt(spec, 'service.konnectivityPort') ?? KONNECTIVITY_PORT;
    routes.push(serviceRoute('konnectivity', [hosts.konnectivity], target('konnectivity', port), context));
  }
  const ingress = recordAt(spec, 'ingress');
  const className = textAt(ingress, 'className');
  const controlPlane = {
    isPaused,
    ...(ingress && {
      ingress: {
        ...(className !== undefined && { className }),
        annotations: textMapAt(ingress, 'annotations'),
      },
    }),
    kubeconfig: { namespace, secret: `${name}-kubeconfig`, keys: ['value'] },
  };
  return { cluster: toCluster(fields, source, { allow, routes, controlPlane }), findings };
}

/** k0smotron adds the type to the name, except for ClusterIP. */
function serviceNames(name: string, type: string | undefined): RouteTarget['names'] {
  const usual = shortened(`kmc-${name}`);
  if (type === 'NodePort') return [usual, shortened(`kmc-${name}-nodeport`)];
  return type === 'LoadBalancer' ? [usual, shortened(`kmc-${name}-lb`)] : [usual];
}

/** As k0smotron shortens names that Kubernetes would refuse. */
function shortened(name: string): string {
  if (name.length <= 63) return name;
  return `${name.slice(0, 57)}-${createHash('md5').update(name).digest('hex').slice(0, 5)}`;
}

interface K0smotronHosts {
  readonly api: string | undefined;
  readonly konnectivity: string | undefined;
}

function hostsOf(spec: unknown, report: Report): K0smotronHosts {
  const api = hostAt(spec, 'apiHost', report);
  const konnectivity = hostAt(spec, 'konnectivityHost', report);
  if (!isSet(at(spec, 'ingress.apiHost'))) {
    const text = "spec.ingress.apiHost is not set, so only the cluster's id leads to its API server";
    report('warning', 'HostMissing', text, `Add ${YAML}`);
  } else if (!isSet(at(spec, 'ingress.konnectivityHost'))) {
    const text =
      'spec.ingress.konnectivityHost is not set, so konnectivity has no host that agents could send';
    report('error', 'KonnectivityHostMissing', text, `Add ${YAML}`);
  }
  if (konnectivity === undefined || konnectivity !== api) return { api, konnectivity };
  const text = `'${api}' is the host of the API server, so konnectivity cannot have it too`;
  report('error', 'HostInvalid', text, 'Give spec.ingress.konnectivityHost a host of its own');
  return { api, konnectivity: undefined };
}

function hostAt(spec: unknown, key: string, report: Report): string | undefined {
  const value = at(spec, `ingress.${key}`);
  return isSet(value) ? acceptedHost(readHost(value), `spec.ingress.${key}`, report) : undefined;
}
