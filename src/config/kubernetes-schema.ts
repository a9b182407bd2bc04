// The schema of the Kubernetes keys in causeway.yaml: sources, outputs, the lease. Checks only their shape; each
// source and output interprets its own options.

import { z } from 'zod';
import { parseIp } from '../wire/ip-address.ts';
import { readListenAddress } from './address.ts';
import type { OutputKind, Plugged, SourceKind } from './config.ts';
import { anyMap, choose, durationMs, field, flag, list, map, oneOf, text, wholeNumber } from './fields.ts';
import { readHost } from './host.ts';
import { bad, either, good } from './reading.ts';
import { hosts } from './route-schema.ts';

const name = text('a name');
const names = list(name, '[default]');
const ip = field(value =>
  typeof value === 'string' && parseIp(value) !== undefined ? good(value) : bad('an IP address', value),
);
const ips = list(ip, '[203.0.113.10]');

const watched = {
  kubeconfig: text('a file name').optional(),
  context: name.optional(),
  namespaces: names.optional(),
  selector: text('a label selector such as "team=a"').optional(),
  domains: hosts.optional(),
  via: oneOf(['endpoints', 'clusterIP']).optional(),
};

const tenantControlPlanes = map({
  ...watched,
  domain: field(readHost).optional(),
  expose: oneOf(['annotated', 'all']).optional(),
  fix: flag.optional(),
});

export const sources: z.ZodType<readonly Plugged<SourceKind>[]> = list(
  plugged({
    kamaji: tenantControlPlanes,
    steward: tenantControlPlanes,
    hypershift: map(watched),
    kubermatic: map({ ...watched, zone: field(readHost).optional() }),
    services: map({ ...watched, domains: hosts }),
    clusterApi: map({ ...watched, service: text('a template such as "{name}-control-plane"').optional() }),
    k0smotron: map(watched),
    directory: map({ path: text('a directory') }),
  }),
  '[{ kamaji: {} }], or []',
);

export const outputs: z.ZodType<readonly Plugged<OutputKind>[]> = list(
  plugged({
    ingress: map({
      flavor: oneOf(['haproxy', 'haproxy-ingress', 'nginx', 'cilium', 'generic', 'fromCluster']).optional(),
      className: name.optional(),
      annotations: anyMap.optional(),
    }),
    ingressRouteTCP: map({ entryPoints: names.optional() }),
    tlsRoute: map({
      gateway: map({ name, namespace: name.optional(), sectionName: name.optional() }),
    }),
    transportServer: map({ className: name.optional() }),
    dnsEndpoint: map({
      zone: field(readHost),
      targets: choose<unknown>(value =>
        Array.isArray(value) ? ips : oneOf(['nodes', 'gateway']),
      ).optional(),
      ttl: durationMs(1000, 'cannot be off: use a duration such as 60s').optional(),
    }),
    dnsServer: map({ on: field(readListenAddress), addresses: ips }),
    tenantAgent: map({
      image: name.optional(),
      imagePullSecrets: list(z.unknown(), '[registry]').optional(),
      kind: oneOf(['Deployment', 'DaemonSet']).optional(),
      replicas: wholeNumber(1, 1000).optional(),
      resources: anyMap.optional(),
      gateway: text('"host:port" of the gateway').optional(),
      gatewayAddresses: ips.optional(),
      uplink: oneOf(['proxy', 'connect', 'tunnel', 'terminate']).optional(),
      tolerations: list(anyMap, '[{ operator: Exists }]').optional(),
      priorityClassName: name.optional(),
    }),
    tenantEndpoints: map({
      address: field(value =>
        value === 'agents' || (typeof value === 'string' && parseIp(value) !== undefined)
          ? good(value)
          : bad('agents or an IP address', value),
      ).optional(),
    }),
  }),
  '[{ ingress: {} }], or []',
);

export const lease = map({ name, namespace: name });

/** A map with exactly one of these keys, which names the source or output. */
function plugged<Kind extends string>(kinds: Record<Kind, z.ZodType>): z.ZodType<Plugged<Kind>> {
  const shape: Record<string, z.ZodType> = {};
  for (const [kind, options] of Object.entries<z.ZodType>(kinds)) shape[kind] = options.optional();
  return map(shape).transform((given, context) => {
    // An unknown key was already reported.
    if (context.issues.length > 0) return z.NEVER;
    const [kind, ...others] = Object.keys(given);
    if (kind === undefined || others.length > 0) {
      const found = kind === undefined ? 'it has none' : `it has ${either([kind, ...others], 'and')}`;
      const message = `must have exactly one of the keys ${either(Object.keys(kinds))}: ${found}`;
      context.issues.push({ code: 'custom', message, input: given });
      return z.NEVER;
    }
    return { kind: kind as Kind, options: given[kind] as Record<string, unknown> };
  });
}
