// The top-level schema of causeway.yaml: every key, and the defaults.

import { z } from 'zod';
import { readListenAddress } from './address.ts';
import { clusters } from './cluster-schema.ts';
import {
  adminRoles,
  type Config,
  DEFAULT_ADMIN,
  engines,
  type GatewayLimits,
  type ListenAddress,
  type Listener,
  logFormats,
  loggedConnections,
  logLevels,
  type Timeouts,
} from './config.ts';
import {
  choose,
  durationMs,
  durationOrOff,
  field,
  flag,
  limit,
  list,
  map,
  oneOf,
  readWholeNumber,
  text,
  wholeNumber,
} from './fields.ts';
import { isRecord } from './is-record.ts';
import { lease, outputs, sources } from './kubernetes-schema.ts';
import { bad, good } from './reading.ts';
import { requireIdentity } from './require-identity.ts';
import { cidrs, exactHosts, hosts } from './route-schema.ts';

/** HyperShift's nodes put the cluster id here, although the PROXY protocol assigns this type to the SSL structure. */
const DEFAULT_ID_TLV = 0x20;

/** TLV types that already have a meaning for the gateway and cannot carry an id. */
const TAKEN_TLVS = new Map([
  [0x03, 'the CRC32C checksum'],
  [0x04, 'padding'],
  [0xe1, 'the signature of an id'],
]);

/** By default it takes at least this many sources to fill the limit of pending connections. */
const SOURCES_AT_LEAST = 10;
const MAX_WORKERS = 1024;
const MAX_RETRIES = 100;
const file = text('a file name');
const keyPair = map({ certFile: file, keyFile: file });
const kind = text('a route kind: api, konnectivity, apps-https, apps-http or the name of your own route');

const idTlv = field(value => {
  const taken = TAKEN_TLVS.get(value as number);
  if (taken !== undefined) return { fault: `must be a different TLV type: ${value} carries ${taken}` };
  return readWholeNumber(value, 0, 255);
});

const listenOn = field(value => {
  const address = readListenAddress(value);
  return 'fault' in address ? address : good({ on: value as string, ...address.value });
});

/** Also for the schema of the Helm chart's values. */
export const longListener = map({
  on: listenOn,
  balancers: cidrs.optional(),
  agents: cidrs.optional(),
  idTlv: list(idTlv, '[0x20]').optional(),
  only: list(kind, '[api]').optional(),
}).transform((given): Listener => {
  const { on, balancers = [], agents = [], idTlv = [DEFAULT_ID_TLV], only } = given;
  return { ...on, balancers, agents, idTlv: [...new Set(idTlv)], ...(only !== undefined && { only }) };
});

const shortListener = listenOn.transform(
  (on): Listener => ({ ...on, balancers: [], agents: [], idTlv: [DEFAULT_ID_TLV] }),
);

const listener = choose<Listener>(value => (isRecord(value) ? longListener : shortListener));

const adminUser = map({
  username: field(value =>
    typeof value === 'string' && /^[^:\p{Cc}]+$/u.test(value)
      ? good(value)
      : bad('a user name without ":"', value),
  ),
  passwordFile: file,
  role: oneOf(adminRoles).default('admin'),
});
const adminUsers = list(adminUser, '[{ username: admin, passwordFile: ./admin.password }]');

const admin = map({
  on: choose<ListenAddress | 'off'>(value =>
    value === 'off' ? z.literal('off') : field(readListenAddress),
  ).default(DEFAULT_ADMIN),
  hosts: exactHosts.default([]),
  auth: choose<z.infer<typeof adminUsers>>(value =>
    isRecord(value) ? adminUser.transform(user => [user]) : adminUsers,
  ).default([]),
  tls: keyPair.exactOptional(),
});

const WAIT = 'cannot be off: use a duration such as 5s';

const timeouts = map({
  hello: durationMs(1, WAIT).default(5000),
  connect: durationMs(1, WAIT).default(3000),
  idle: durationOrOff(1).default('off'),
  stalled: durationOrOff(1).default(300_000),
  halfClosed: durationOrOff(1).default(60_000),
  drainDelay: durationMs(0, 'cannot be off: use 0s for no delay').default(0),
  drain: durationMs(0, 'cannot be off: use 0s to cut at once, or a long time such as 24h').default(600_000),
  // The kernel counts in seconds.
  keepalive: durationOrOff(1000).default(30_000),
}).transform((given): Timeouts => {
  const { hello, connect, idle, stalled, halfClosed, drainDelay, drain, keepalive } = given;
  return {
    helloMs: hello,
    connectMs: connect,
    ...(idle !== 'off' && { idleMs: idle }),
    ...(stalled !== 'off' && { stalledMs: stalled }),
    ...(halfClosed !== 'off' && { halfClosedMs: halfClosed }),
    drainDelayMs: drainDelay,
    drainMs: drain,
    ...(keepalive !== 'off' && { keepaliveMs: keepalive }),
  };
});

const limits = map({
  connections: requiredLimit('omit it for the default, (open-file limit - 512) / 2').optional(),
  perSource: limit.default('off'),
  pending: requiredLimit('omit it for the default, 10000').default(10_000),
  pendingPerSource: limit.optional(),
}).transform((given): GatewayLimits => {
  const { connections, perSource, pending, pendingPerSource = Math.ceil(pending / SOURCES_AT_LEAST) } = given;
  return {
    ...(connections !== undefined && { connections }),
    ...(perSource !== 'off' && { perSource }),
    pending,
    ...(pendingPerSource !== 'off' && { pendingPerSource }),
  };
});

export const schema = map({
  listen: list(listener, '[":6443"]').min(
    1,
    'must have at least one address, such as [":6443"]: current value is []',
  ),
  admin: admin.prefault({}),
  identity: map({ secretFile: file, required: flag.default(false) }).exactOptional(),
  clusters: clusters.default([]),
  tunnel: map({
    on: field(readListenAddress).exactOptional(),
    hosts: hosts.min(1, 'must have at least one host: current value is []'),
    certificates: list(keyPair, '[{ certFile: …, keyFile: … }]').min(
      1,
      'must have at least one: current value is []',
    ),
  }).exactOptional(),
  timeouts: timeouts.prefault({}),
  retries: wholeNumber(0, MAX_RETRIES).default(3),
  limits: limits.prefault({}),
  stateDir: text('a directory').exactOptional(),
  runDir: text('a directory').exactOptional(),
  engine: oneOf(engines).default('auto'),
  workers: field<number | 'auto'>(value =>
    value === 'auto' ? good('auto') : readWholeNumber(value, 1, MAX_WORKERS, ', or auto'),
  ).default('auto'),
  log: map({
    level: oneOf(logLevels).default('info'),
    format: oneOf(logFormats).default('auto'),
    connections: oneOf(loggedConnections).default('all'),
  }).prefault({}),
  sources: sources.default([]),
  outputs: outputs.default([]),
  lease: lease.exactOptional(),
  statusAnnotation: flag.exactOptional(),
});

export function toConfig(given: z.infer<typeof schema>): Config {
  const { clusters } = given;
  return {
    ...given,
    clusters: given.identity?.required ? clusters.map(requireIdentity) : clusters,
  };
}

/** A limit that cannot be off. */
function requiredLimit(insteadOfOff: string): z.ZodType<number> {
  return field(value =>
    value === 'off'
      ? { fault: `cannot be off: ${insteadOfOff}` }
      : readWholeNumber(value, 1, Number.MAX_SAFE_INTEGER),
  );
}
