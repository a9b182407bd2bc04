// TenantControlPlane of Kamaji and of its fork Steward: what is kept of an object, and its fields as we read them.
// Tenants may write these objects, so a field that cannot be read counts as absent, except where that would hide a
// mistake (host names) or let more clients in (source ranges): those are passed on as they are.

import type { AgentAddon } from '../cluster/cluster.ts';
import { isRecord } from '../config/is-record.ts';
import { type Resource, resource } from '../kube/resources.ts';
import {
  annotationOf,
  type ClusterObject,
  type CommonFields,
  commonFields,
  keepClusterObject,
} from './cluster-object.ts';
import { at, objectNameAt, portAt, recordAt, type Shape, textAt, textMapAt, textsAt } from './json-fields.ts';

export type TenantControlPlane = ClusterObject;

export interface TenantSystem {
  readonly title: 'Kamaji' | 'Steward';
  readonly resource: Resource<TenantControlPlane>;
  /** The domain of its generated hosts. The first of these that is set counts. */
  readonly domainAnnotations: readonly string[];
}

const KAMAJI_DOMAIN = 'kamaji.clastix.io/ingress.domain';

export const kamaji: TenantSystem = {
  title: 'Kamaji',
  resource: resource('kamaji.clastix.io/v1alpha1', 'tenantcontrolplanes', 'TenantControlPlane'),
  domainAnnotations: [KAMAJI_DOMAIN],
};

export const steward: TenantSystem = {
  title: 'Steward',
  resource: resource('steward.butlerlabs.dev/v1alpha1', 'tenantcontrolplanes', 'TenantControlPlane'),
  // Those who came from Kamaji may still have its annotation.
  domainAnnotations: ['steward.butlerlabs.dev/ingress.domain', KAMAJI_DOMAIN],
};

/** Defaults of both CustomResourceDefinitions. */
const API_PORT = 6443;
const KONNECTIVITY_PORT = 8132;

const ANNOTATIONS: Shape = Object.fromEntries(
  [...kamaji.domainAnnotations, ...steward.domainAnnotations].map(key => [key, true]),
);

const SPEC: Shape = {
  controlPlane: {
    service: { serviceType: true },
    ingress: {
      hostname: true,
      ingressClassName: true,
      controllerType: true,
      additionalMetadata: { annotations: true },
    },
    gateway: { hostname: true },
    deployment: { extraArgs: { apiServer: true } },
  },
  networkProfile: { port: true, certSANs: true, loadBalancerSourceRanges: true },
  addons: {
    konnectivity: { server: { port: true }, agent: { extraArgs: true } },
    tcpProxy: { image: true, resources: true, hostAliases: true, internalEndpoint: true },
  },
};

const STATUS: Shape = {
  kubeconfig: { admin: { secretName: true } },
  certificates: { apiServer: { secretName: true } },
  addons: { tcpProxy: { enabled: true } },
};

export function keepTenantControlPlane(object: TenantControlPlane): TenantControlPlane {
  return keepClusterObject(object, { spec: SPEC, status: STATUS, annotations: ANNOTATIONS });
}

/** The fields of an object, with defaults. `unknown` fields are still to be checked. */
export interface TenantFields extends CommonFields {
  /** The annotation that is set, or the one to set. */
  readonly domainAnnotation: string;
  /** Its value: '' where it has none, undefined where it is not set. */
  readonly domain: unknown;
  readonly ingress: IngressFields | undefined;
  readonly gatewayHostname: unknown;
  readonly serviceType: string | undefined;
  readonly port: number;
  readonly certSANs: readonly string[];
  readonly sourceRanges: unknown;
  readonly apiServerArgs: readonly string[];
  /** Absent where the addon is off. */
  readonly konnectivity: { readonly port: number; readonly agentArgs: readonly string[] } | undefined;
  /** Steward's; absent where the addon is off. */
  readonly tcpProxy: AgentAddon | undefined;
  readonly adminSecret: string | undefined;
  readonly certificateSecret: string | undefined;
}

interface IngressFields {
  readonly hostname: unknown;
  readonly className: string | undefined;
  readonly controllerType: string | undefined;
  readonly annotations: Readonly<Record<string, string>>;
}

export function readTenantControlPlane(given: TenantControlPlane, system: TenantSystem): TenantFields {
  const { spec, status } = given;
  const [usual] = system.domainAnnotations;
  const domainAnnotation =
    system.domainAnnotations.find(key => annotationOf(given, key) !== undefined) ?? usual;
  const ingress = recordAt(spec, 'controlPlane.ingress');
  const konnectivity = recordAt(spec, 'addons.konnectivity');
  return {
    ...commonFields(given),
    domainAnnotation,
    domain: annotationOf(given, domainAnnotation),
    ingress: ingress && {
      hostname: at(ingress, 'hostname'),
      className: textAt(ingress, 'ingressClassName'),
      controllerType: system.title === 'Steward' ? textAt(ingress, 'controllerType') : undefined,
      annotations: textMapAt(ingress, 'additionalMetadata.annotations'),
    },
    gatewayHostname: at(spec, 'controlPlane.gateway.hostname'),
    serviceType: textAt(spec, 'controlPlane.service.serviceType'),
    port: portAt(spec, 'networkProfile.port') ?? API_PORT,
    certSANs: textsAt(spec, 'networkProfile.certSANs'),
    sourceRanges: at(spec, 'networkProfile.loadBalancerSourceRanges'),
    apiServerArgs: textsAt(spec, 'controlPlane.deployment.extraArgs.apiServer'),
    konnectivity: konnectivity && {
      port: portAt(konnectivity, 'server.port') ?? KONNECTIVITY_PORT,
      agentArgs: textsAt(konnectivity, 'agent.extraArgs'),
    },
    tcpProxy:
      system.title === 'Steward'
        ? tcpProxyOf(recordAt(spec, 'addons.tcpProxy'), at(status, 'addons.tcpProxy.enabled') === true)
        : undefined,
    adminSecret: objectNameAt(status, 'kubeconfig.admin.secretName'),
    certificateSecret: objectNameAt(status, 'certificates.apiServer.secretName'),
  };
}

function tcpProxyOf(
  addon: Readonly<Record<string, unknown>> | undefined,
  isRunning: boolean,
): AgentAddon | undefined {
  if (addon === undefined) return undefined;
  const [image, resources] = [textAt(addon, 'image'), recordAt(addon, 'resources')];
  const internalEndpoint = textAt(addon, 'internalEndpoint');
  const aliases = at(addon, 'hostAliases');
  return {
    ...(image !== undefined && { image }),
    ...(resources !== undefined && { resources }),
    hostAliases: (Array.isArray(aliases) ? aliases : []).filter(isRecord).flatMap(alias => {
      const [ip, hostnames] = [textAt(alias, 'ip'), textsAt(alias, 'hostnames')];
      return ip === undefined || hostnames.length === 0 ? [] : [{ ip, hostnames }];
    }),
    ...(internalEndpoint !== undefined && { internalEndpoint }),
    ...(isRunning && { isRunning }),
  };
}
