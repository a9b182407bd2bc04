// The targets of `causeway render` that kubectl applies: their flags, and their YAML. What they say is in src/outputs.

import { isIP } from 'node:net';
import type { ParseArgsConfig } from 'node:util';
import { Document, isScalar, isSeq, visit } from 'yaml';
import { type Config, ingressFlavors } from '../config/config.ts';
import { DNS_LABEL } from '../config/names.ts';
import { zonesOf } from '../dns/zones.ts';
import { renderDnsEndpoints } from '../outputs/render-dns-endpoint.ts';
import { type Rendered, type RouteFlags, renderObjects, routeTargets } from '../outputs/render-objects.ts';
import { nearest } from '../text/nearest.ts';
import { UsageError } from './command.ts';
import { printError } from './terminal.ts';

export const kubeTargets = [...routeTargets, 'dns-endpoint'] as const;
export type KubeTarget = (typeof kubeTargets)[number];

export function isKubeTarget(target: string): target is KubeTarget {
  return (kubeTargets as readonly string[]).includes(target);
}

export const kubeOptions = {
  namespace: { type: 'string', short: 'n' },
  flavor: { type: 'string' },
  'class-name': { type: 'string' },
  'entry-point': { type: 'string', multiple: true },
  gateway: { type: 'string' },
  'api-version': { type: 'string' },
} as const satisfies NonNullable<ParseArgsConfig['options']>;

/** As parseArgs() gives them. */
export interface KubeValues {
  readonly namespace?: string | undefined;
  readonly flavor?: string | undefined;
  readonly 'class-name'?: string | undefined;
  readonly 'entry-point'?: readonly string[] | undefined;
  readonly gateway?: string | undefined;
  readonly 'api-version'?: string | undefined;
}

/** The targets that take a flag. */
export const kubeFlagTargets: Readonly<Record<keyof KubeValues, readonly KubeTarget[]>> = {
  namespace: kubeTargets,
  flavor: ['ingress'],
  'class-name': ['ingress', 'tls-route', 'transport-server'],
  'entry-point': ['ingress-route-tcp'],
  gateway: ['tls-route'],
  'api-version': ['tls-route'],
};

export interface KubeFlags extends RouteFlags {
  readonly addresses?: readonly string[];
}

const flavors = ingressFlavors.filter(flavor => flavor !== 'fromCluster');
/** Of TLSRoute, the newest first. */
const apiVersions = ['v1', 'v1alpha3', 'v1alpha2'];
/** RFC 1123, as names of classes and Gateways are. */
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const ENTRY_POINT = /^[A-Za-z0-9._-]{1,128}$/;

export function kubeFlags(values: KubeValues): KubeFlags {
  const {
    namespace,
    'class-name': className,
    'entry-point': entryPoints,
    'api-version': apiVersion,
  } = values;
  if (namespace !== undefined && !DNS_LABEL.test(namespace))
    throw new UsageError(`--namespace must be the name of a namespace: ${namespace}`);
  if (className !== undefined && !SUBDOMAIN.test(className))
    throw new UsageError(`--class-name must be the name of a class, such as nginx: ${className}`);
  const wrong = entryPoints?.find(each => !ENTRY_POINT.test(each));
  if (wrong !== undefined)
    throw new UsageError(
      `--entry-point must be the name of an entry point of Traefik, such as websecure: ${wrong}`,
    );
  return {
    namespace,
    className,
    entryPoints,
    flavor: oneOf('flavor', values.flavor, flavors),
    apiVersion: oneOf('api-version', apiVersion, apiVersions),
    gateway: gatewayOf(values.gateway),
  };
}

/** Undefined if there is nothing to apply; the reason is on stderr. */
export function renderKube(
  target: KubeTarget,
  config: Config,
  file: string,
  { addresses = [], ...flags }: KubeFlags,
): string | undefined {
  const rendered =
    target === 'dns-endpoint'
      ? dnsEndpoints(config, flags.namespace, addresses)
      : renderObjects(target, config, flags);
  const { groups, notes } = rendered;
  const objects = groups.flatMap(group => group.objects);
  printError(...notes.map(note => `${file}: ${note}`));
  if (objects.length === 0) {
    printError(`${file}: nothing to apply: no cluster has a host and backends that ${target} can express`);
    return undefined;
  }
  return groups.map(textOf).join('');
}

function oneOf<T extends string>(
  flag: string,
  given: string | undefined,
  allowed: readonly T[],
): T | undefined {
  if (given === undefined) return undefined;
  const found = allowed.find(each => each === given);
  if (found !== undefined) return found;
  const near = nearest(given, allowed);
  const hint = near === undefined ? `one of ${allowed.join(', ')}` : `did you mean ${near}?`;
  throw new UsageError(`Unknown --${flag} '${given}': ${hint}`);
}

function gatewayOf(given: string | undefined): RouteFlags['gateway'] {
  if (given === undefined) return undefined;
  const [name, namespace, ...others] = given.split('/').toReversed();
  if (others.length > 0 || !SUBDOMAIN.test(name) || (namespace !== undefined && !DNS_LABEL.test(namespace)))
    throw new UsageError(`--gateway must be NAME or NAMESPACE/NAME: ${given}`);
  return { name, ...(namespace !== undefined && { namespace }) };
}

/** The gateway's addresses: given, or what the file says about them. */
function dnsEndpoints(config: Config, namespace: string | undefined, given: readonly string[]): Rendered {
  const output = config.outputs.find(({ kind }) => kind === 'dnsEndpoint');
  const configured = output?.kind === 'dnsEndpoint' ? output.options.addresses : [];
  const listening = config.listen.map(({ host }) => host).filter(isPublic);
  const addresses = [given, configured, listening].find(each => each.length > 0) ?? [];
  if (addresses.length === 0 && output === undefined)
    throw new UsageError('--address is missing: the address of the gateway, to which the hosts lead');
  const hosts = config.clusters.flatMap(({ routes }) => routes.flatMap(route => route.hosts));
  const hidden = zonesOf(hosts)
    .flatMap(({ names }) => names)
    .flatMap(({ name, because }) => (because === undefined ? [] : [{ name, because }]));
  return renderDnsEndpoints(config, {
    namespace: namespace ?? '',
    addresses: [...new Set(addresses)],
    hidden,
  });
}

/** An address, and not `0.0.0.0` or `::`, which is none that a name could lead to. */
function isPublic(host: string): boolean {
  return isIP(host) !== 0 && !/^[0:.]+$/.test(host);
}

function textOf({ cluster, objects }: Rendered['groups'][number]): string {
  return objects
    .map((object, i) => {
      const comment = i === 0 && cluster !== undefined ? `# Cluster ${cluster}\n` : '';
      return `---\n${comment}${yamlOf(object)}`;
    })
    .join('');
}

/** Small maps and lists on one line, as people write them. */
function yamlOf(object: object): string {
  const document = new Document(object, { aliasDuplicateObjects: false });
  visit(document, {
    Map: (_, map, path) => {
      if (path.some(each => isSeq(each)) && map.items.every(({ value }) => isScalar(value))) map.flow = true;
    },
    Seq: (_, list) => {
      list.flow = list.items.every(isScalar);
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: true });
}
