// What names say about clusters: the domain that hosts of one cluster share, the word that its backends share, and the
// kind of a route.

import { knownKinds } from '../cluster/cluster.ts';
import { isWildcard } from '../cluster/hostname.ts';
import type { Entry, ImportedListener } from './imported.ts';

/** First labels that stand for a part of a cluster, and not for a cluster. */
const PARTS =
  'api|api-int|kube-apiserver|apiserver|k8s|konnectivity|oauth|oauth-openshift|ignition|ignition-server|metrics|mcs|apps';
const PART_LABEL = new RegExp(`^(?:${PARTS})(?:-(?:public|private|external|internal))?$`);
const PART_PREFIX = new RegExp(`^(?:${PARTS})-(.+)$`);
/** Kamaji and Steward put the part behind the name: ns-name.k8s.domain. */
const MIDDLE_PART = /^(?:k8s|konnectivity|api|kubernetes)$/;
/** Words in names of backends that say what they are for. */
const ROLES = new Set(
  `api apis apiserver kube kas k8s kubernetes konnectivity oauth ignition server metrics proxy ingress router routers apps
  app http https tls ssl tcp tcpmode sni be bk backend backends back pool farm svc service servers node nodes master masters
  control plane controlplane compute worker workers public private external internal port ports passthrough default stats
  mcs machine config openshift ocp lb upstream up stream`.split(/\s+/),
);
const KONNECTIVITY_PORTS = /:(?:8132|8091)$/;
const RESERVED = new Set<string>([...knownKinds, 'apps']);
const OWN_KINDS = /\b(oauth|ignition|metrics|mcs)\b/;

/** `managed1.linuxera.lab` of api.managed1.linuxera.lab and *.apps.managed1.linuxera.lab; undefined if unclear. */
export function domainOf(host: string): string | undefined {
  const labels = (isWildcard(host) ? host.slice(2) : host).split('.');
  const [first, second, ...rest] = labels;
  if (host === '*' || second === undefined) return undefined;
  if (isWildcard(host)) return (first === 'apps' ? labels.slice(1) : labels).join('.');
  if (PART_LABEL.test(first)) return labels.slice(1).join('.');
  if (second === 'apps' && rest.length > 0) return rest.join('.');
  const prefixed = PART_PREFIX.exec(first);
  if (prefixed !== null) return [prefixed[1], second, ...rest].join('.');
  if (MIDDLE_PART.test(second) && rest.length > 0) return [first, ...rest].join('.');
  return undefined;
}

/** `hub` of be_api_hub_6443 and be_ingress_hub_80; undefined if nothing is left. */
export function stemOf(name: string): string | undefined {
  const words = name.toLowerCase().split(/[^a-z0-9]+/);
  const left = words.filter(word => word !== '' && !ROLES.has(word) && !/^\d+$/.test(word));
  return left.length === 0 ? undefined : left.join('-');
}

/** `api`, `konnectivity`, `apps-https`, `apps-http`, or a name of its own. */
export function kindOf({ host = '', id, pool, protocol }: Entry, listener: ImportedListener): string {
  if (protocol === 'http') return 'apps-http';
  const names = `${pool.name} ${host.split('.')[0]}`.toLowerCase().replaceAll('_', '-');
  const isKonnectivity =
    names.includes('konnectivity') ||
    host.split('.').includes('konnectivity') ||
    pool.backends.some(backend => KONNECTIVITY_PORTS.test(backend));
  if (isKonnectivity && host !== '*' && id === undefined) return 'konnectivity';
  if (id !== undefined) return 'api';
  const own = OWN_KINDS.exec(names.replace(/-/g, ' '));
  if (own !== null && host !== '*') return own[1];
  // An API route cannot be for all hosts, but may wait for its own.
  if (host === '*' || host === '') {
    if (listener.port === 443) return 'apps-https';
    if (host === '' && listener.port === 6443) return 'api';
    const label = toLabel(pool.name, 'rest');
    return RESERVED.has(label) ? `${label}-rest` : label;
  }
  if (host.startsWith('*.apps.')) return 'apps-https';
  const isApiHost =
    /^(?:api|api-int|k8s|kube-apiserver\S*)$/.test(host.split('.')[0]) || host.includes('.k8s.');
  const isApiPort = listener.port === 6443 || pool.backends.every(backend => backend.endsWith(':6443'));
  return isApiHost || (isApiPort && pool.backends.length > 0) ? 'api' : 'apps-https';
}

/** A DNS label from any text; `fallback` if nothing is left of it. */
export function toLabel(text: string, fallback: string): string {
  const label = text
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .slice(0, 50)
    .replace(/^-+|-+$/g, '');
  return label === '' ? fallback : label;
}
