// The schema of the Kubernetes keys in causeway.yaml: sources, outputs, the lease.

import { z } from 'zod';
import { uplinkKinds } from '../cluster/cluster.ts';
import { parseIp } from '../wire/ip-address.ts';
import { readBackend, readListenAddress } from './address.ts';
import {
  ingressFlavors,
  type OutputOptions,
  type OutputSettings,
  type Plugged,
  type SourceOptions,
  type SourceSettings,
} from './config.ts';
import {
  anyMap,
  choose,
  durationMs,
  field,
  flag,
  list,
  map,
  oneOf,
  record,
  text,
  wholeNumber,
} from './fields.ts';
import { readHost } from './host.ts';
import { DNS_LABEL } from './names.ts';
import { bad, either, good } from './reading.ts';
import { hosts } from './route-schema.ts';

const name = text('a name');
const names = list(name, '[default]');
const ip = field(value =>
  typeof value === 'string' && parseIp(value) !== undefined ? good(value) : bad('an IP address', value),
);
const ips = list(ip, '[203.0.113.10]');
const DNS_TTL_MS = 60_000;

/** An empty list would mean nothing at all, which is hardly meant. */
const namespaces = names.refine(given => given.length > 0, {
  error: 'must have at least one namespace: leave it out for all',
});

const watched = {
  kubeconfig: text('a file name').optional(),
  context: name.optional(),
  namespaces: namespaces.optional(),
  selector: text('a label selector such as "team=a"').optional(),
  domains: hosts.optional(),
  via: oneOf(['endpoints', 'clusterIP']).default('endpoints'),
};

const tenantControlPlanes = map({
  ...watched,
  domain: field(readHost).optional(),
  expose: oneOf(['annotated', 'all']).default('annotated'),
  fix: flag.default(false),
});

/** For the names of Services. */
const serviceTemplate = field(value => {
  const sample = typeof value === 'string' ? value.replaceAll(/\{name\}|\{namespace\}/g, 'a') : '';
  if (DNS_LABEL.test(sample)) return good(value as string);
  return bad(
    'the name of a Service such as "{name}-control-plane", with {name} and {namespace} of the Cluster',
    value,
  );
});

export const sources: z.ZodType<readonly SourceSettings[]> = plugged<SourceOptions>(
  {
    kamaji: tenantControlPlanes,
    steward: tenantControlPlanes,
    hypershift: map({ ...watched, via: oneOf(['endpoints', 'clusterIP']).default('clusterIP') }),
    kubermatic: map({ ...watched, zone: field(readHost).optional() }),
    services: map({ ...watched, domains: hosts }),
    clusterApi: map({ ...watched, service: serviceTemplate.default('{name}-control-plane') }),
    k0smotron: map(watched),
    directory: map({ path: text('a directory') }),
  },
  '[{ kamaji: {} }], or []',
);

export const outputs: z.ZodType<readonly OutputSettings[]> = plugged<OutputOptions>(
  {
    ingress: map({
      flavor: oneOf(ingressFlavors).default('haproxy'),
      className: name.optional(),
      annotations: record(good, text('text'), 'a map of annotations').default({}),
    }),
    ingressRouteTCP: map({ entryPoints: names.default(['websecure']) }),
    tlsRoute: map({
      gateway: map({ name, namespace: name.optional(), sectionName: name.optional() }),
    }),
    transportServer: map({ className: name.optional() }),
    dnsEndpoint: map({
      zone: field(readHost),
      targets: choose<'nodes' | 'gateway' | string[]>(value =>
        Array.isArray(value) ? ips : oneOf(['nodes', 'gateway']),
      ).default('nodes'),
      addresses: ips.default([]),
      ttl: durationMs(1000, 'cannot be off: use a duration such as 60s').default(DNS_TTL_MS),
    }).transform(({ ttl, ...rest }, context) => {
      const { targets, addresses } = rest;
      if (targets === 'gateway' && addresses.length === 0) {
        const message = 'needs the addresses of this gateway: addresses: [203.0.113.10]';
        context.issues.push({ code: 'custom', message, path: ['targets'], input: targets });
      }
      return { ...rest, ttlMs: ttl };
    }),
    dnsServer: map({
      on: field(readListenAddress),
      addresses: ips.refine(given => given.length > 0, {
        error: 'must have the addresses of this gateway: addresses: [203.0.113.10]',
      }),
      targets: oneOf(['gateway', 'nodes']).default('gateway'),
      ttl: durationMs(1000, 'cannot be off: use a duration such as 60s').default(DNS_TTL_MS),
      zones: list(field(readHost), '[clusters.example.com]').default([]),
      nameServers: list(field(readHost), '[ns1.example.com]').default([]),
    }).transform(({ ttl, ...rest }) => ({ ...rest, ttlMs: ttl })),
    tenantAgent: map({
      image: name.optional(),
      imagePullSecrets: names.default([]),
      kind: oneOf(['Deployment', 'DaemonSet']).default('Deployment'),
      replicas: wholeNumber(1, 1000).default(2),
      resources: anyMap.default({}),
      gateway: field(value => {
        const read = readBackend(value);
        return 'fault' in read ? read : good(read.value.text);
      }).optional(),
      gatewayAddresses: ips.default([]),
      uplink: oneOf(uplinkKinds).default('proxy'),
      tolerations: list(anyMap, '[{ operator: Exists }]').default([]),
      priorityClassName: name.default('system-cluster-critical'),
    }),
    tenantEndpoints: map({
      address: field(value =>
        value === 'agents' || (typeof value === 'string' && parseIp(value) !== undefined)
          ? good(value)
          : bad('agents or an IP address', value),
      ).default('agents'),
    }),
  },
  '[{ ingress: {} }], or []',
);

export const lease = map({ name, namespace: name });

/** A list of maps with exactly one of these keys each, which names the source or output. */
function plugged<Options>(
  kinds: { readonly [Kind in keyof Options]: z.ZodType<Options[Kind]> },
  example: string,
): z.ZodType<readonly Plugged<Options>[]> {
  const shape: Record<string, z.ZodType> = {};
  for (const [kind, options] of Object.entries<z.ZodType>(kinds)) shape[kind] = options.optional();
  const one = map(shape).transform((given, context) => {
    // An unknown key was already reported.
    if (context.issues.length > 0) return z.NEVER;
    const [kind, ...others] = Object.keys(given);
    if (kind === undefined || others.length > 0) {
      const found = kind === undefined ? 'it has none' : `it has ${either([kind, ...others], 'and')}`;
      const message = `must have exactly one of the keys ${either(Object.keys(kinds))}: ${found}`;
      context.issues.push({ code: 'custom', message, input: given });
      return z.NEVER;
    }
    return { kind, options: given[kind] };
  });
  return list(one, example).transform(given => {
    const counts = new Map<string, number>();
    return given.map(({ kind, options }) => {
      const count = (counts.get(kind) ?? 0) + 1;
      counts.set(kind, count);
      return { kind, name: count === 1 ? kind : `${kind}-${count}`, options } as Plugged<Options>;
    });
  });
}
