// What each ingress controller needs of an Ingress to pass TLS through: a class and an annotation.

import type { Cluster } from '../cluster/cluster.ts';
import { isWildcard } from '../cluster/hostname.ts';
import type { IngressFlavor, IngressOptions } from '../config/config.ts';

interface Flavor {
  /** The IngressClass that the controller has by default. */
  readonly className?: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** Why the controller cannot pass this host through, or undefined. */
  readonly refusal?: (host: string) => string | undefined;
}

const flavors: Readonly<Record<Exclude<IngressFlavor, 'fromCluster'>, Flavor>> = {
  haproxy: { className: 'haproxy', annotations: { 'haproxy.org/ssl-passthrough': 'true' } },
  'haproxy-ingress': {
    className: 'haproxy',
    annotations: { 'haproxy-ingress.github.io/ssl-passthrough': 'true' },
  },
  nginx: {
    className: 'nginx',
    annotations: { 'nginx.ingress.kubernetes.io/ssl-passthrough': 'true' },
    refusal: host => (isWildcard(host) ? 'ingress-nginx passes only exact hosts through' : undefined),
  },
  cilium: { className: 'cilium', annotations: { 'ingress.cilium.io/tls-passthrough': 'enabled' } },
  generic: { annotations: {} },
};

/** What becomes of one cluster. */
export type IngressChoice =
  | {
      readonly kind: 'ingress';
      readonly flavor: Flavor;
      readonly className?: string | undefined;
      readonly annotations: Readonly<Record<string, string>>;
    }
  /** Traefik has a resource of its own. */
  | {
      readonly kind: 'traefik';
      readonly className?: string | undefined;
      readonly annotations: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'unknown'; readonly controllerType: string };

const KAMAJI = 'kamaji.clastix.io/';
/** Steward's controllerTypes, besides `traefik`. */
const byControllerType: ReadonlyMap<string, Flavor> = new Map([
  ['haproxy', flavors.haproxy],
  ['nginx', flavors.nginx],
  ['generic', flavors.generic],
]);
export const controllerTypes: readonly string[] = [...byControllerType.keys(), 'traefik'];

export function chooseIngress(
  { flavor: given, className, annotations }: IngressOptions,
  { origin, controlPlane }: Cluster,
): IngressChoice {
  const ingress = controlPlane?.ingress;
  // A TenantControlPlane of Kamaji names a class that nobody handles, so that the addon's Ingress is the only one.
  const isKamaji = origin.object?.apiVersion.startsWith(KAMAJI) ?? false;
  if (given !== 'fromCluster' || isKamaji) {
    const flavor = given === 'fromCluster' ? flavors.haproxy : flavors[given];
    return { kind: 'ingress', flavor, className: className ?? flavor.className, annotations };
  }
  const own = { ...withoutOurs(ingress?.annotations ?? {}), ...annotations };
  const { controllerType = 'generic' } = ingress ?? {};
  const ownClass = className ?? ingress?.className;
  if (controllerType === 'traefik') return { kind: 'traefik', className: ownClass, annotations: own };
  const flavor = byControllerType.get(controllerType);
  if (flavor === undefined) return { kind: 'unknown', controllerType };
  return { kind: 'ingress', flavor, className: ownClass ?? flavor.className, annotations: own };
}

/** Tenants do not write the annotations by which we know our objects. */
function withoutOurs(annotations: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(annotations).filter(([key]) => !/^([^/]*\.)?causeway\.dev\//.test(key)),
  );
}
