// Clusters and listeners → causeway.yaml, as a person would write it, with comments that say where each part came from.

import { defaultsOf } from '../config/to-route.ts';
import { printable } from '../text/printable.ts';
import { append } from './append.ts';
import type { GroupedCluster, GroupedRoute } from './group-clusters.ts';
import type { Imported, ImportedHealth, ImportFinding, Place } from './imported.ts';
import { placeText } from './imported.ts';
import type { SettledListener } from './settle-listeners.ts';

const LINE = 110;

export function writeYaml(
  { files, timeouts, retries, connections }: Imported,
  program: string,
  listeners: readonly SettledListener[],
  clusters: readonly GroupedCluster[],
  notCarriedOver: readonly ImportFinding[],
): string {
  const at = shortPlace(files);
  const lines = [
    comment(`Imported by causeway import ${program} from ${files.join(', ')}`),
    '# Next: read the findings, then  causeway check, and  causeway explain HOST  for each name that matters',
    '',
    'listen:',
    ...listeners.flatMap(listener => listenerLines(listener, at)),
  ];
  // The port that admin.on has by default.
  if (listeners.some(({ port }) => port === 9440)) lines.push('', 'admin:', '  on: "127.0.0.1:9441"');
  const settings = [
    ...mapLine(
      'timeouts',
      Object.entries(timeouts).map(([key, ms]) => [key, durationText(ms)]),
    ),
    ...(retries === undefined ? [] : [`retries: ${retries}`]),
    ...(connections === undefined ? [] : [`limits: { connections: ${connections} }`]),
  ];
  if (settings.length > 0) lines.push('', ...settings);
  lines.push('', clusters.length === 0 ? 'clusters: []' : 'clusters:');
  append(
    lines,
    clusters.map(cluster => clusterLines(cluster, at)).flatMap((one, i) => (i === 0 ? one : ['', ...one])),
  );
  if (notCarriedOver.length > 0) {
    lines.push('', '# Not carried over:');
    for (const { place, text } of notCarriedOver) lines.push(comment(`  ${placeText(place)}: ${text}`));
  }
  return `${lines.join('\n')}\n`;
}

type At = (place: Place) => string;

/** With the file only if there are several. */
function shortPlace(files: readonly string[]): At {
  return ({ file, line }) => (files.length === 1 && file === files[0] ? `line ${line}` : `${file}:${line}`);
}

function listenerLines(
  { on, only, balancers, agents, idTlv, name, place }: SettledListener,
  at: At,
): string[] {
  const from = comment(`${name}, ${at(place)}`);
  const fields = [
    `on: ${JSON.stringify(on)}`,
    ...(balancers === undefined ? [] : [`balancers: ${list(balancers)}`]),
    ...(agents === undefined ? [] : [`agents: ${list(agents)}`]),
    ...(idTlv === undefined ? [] : [`idTlv: [${idTlv.map(hex).join(', ')}]`]),
    ...(only === undefined ? [] : [`only: ${list(only)}`]),
  ];
  if (fields.length <= 2)
    return [
      fields.length === 1 ? `  - ${fields[0].slice(4)} ${from}` : `  - { ${fields.join(', ')} } ${from}`,
    ];
  return [`  ${from}`, ...fields.map((field, i) => `  ${i === 0 ? '-' : ' '} ${field}`)];
}

function clusterLines({ name, id, routes }: GroupedCluster, at: At): string[] {
  const lines = [`  - name: ${scalar(name)}`];
  if (id !== undefined) lines.push(`    id: ${scalar(id)}`);
  for (const kind of ['api', 'konnectivity']) {
    const route = routes.find(other => other.kind === kind);
    if (route !== undefined) append(lines, routeLines(kind, route, at, 4));
  }
  const https = routes.find(({ kind }) => kind === 'apps-https');
  const http = routes.find(({ kind }) => kind === 'apps-http');
  const { hosts } = https ?? http ?? { hosts: [] };
  if (https !== undefined || http !== undefined) lines.push('    apps:', ...listLines('hosts', hosts, 6));
  if (https !== undefined) append(lines, routeLines('https', https, at, 6));
  if (http?.pool.redirect === true) lines.push(`      http: redirect ${comment(at(http.place))}`);
  else if (http !== undefined) append(lines, routeLines('http', http, at, 6));
  const own = routes.filter(({ kind }) => !['api', 'konnectivity', 'apps-https', 'apps-http'].includes(kind));
  if (own.length > 0) lines.push('    routes:');
  for (const route of own) append(lines, routeLines(scalar(route.kind), route, at, 6));
  return lines;
}

function routeLines(key: string, route: GroupedRoute, at: At, indent: number): string[] {
  const { hosts, pool, allow, place, kind } = route;
  const space = ' '.repeat(indent);
  const inner = indent + 2;
  const known = kind in defaultsOf ? (kind as keyof typeof defaultsOf) : 'own';
  const usual = defaultsOf[known];
  const differs = pool.balance !== undefined && pool.balance !== usual.balance && pool.backends.length > 1;
  const balance = differs ? [`balance: ${pool.balance}`] : [];
  const health = pool.health === undefined ? [] : healthLine(pool.health, usual.health.check);
  const proxy = pool.proxyProtocol === undefined ? [] : [`proxyProtocol: ${pool.proxyProtocol}`];
  return [
    `${space}${key}: ${comment(`${pool.name}, ${at(pool.place)}, by the rule on ${at(place)}`)}`,
    // Those of apps are above.
    ...(kind.startsWith('apps-') && kind in defaultsOf ? [] : listLines('hosts', hosts, inner)),
    ...listLines('backends', pool.backends, inner),
    ...[...balance, ...health, ...proxy].map(line => `${' '.repeat(inner)}${line}`),
    ...(allow === undefined ? [] : listLines('allow', allow, inner)),
  ];
}

/** Only what differs from the defaults. */
function healthLine(health: ImportedHealth, usual: string): string[] {
  const fields: [string, string][] = [];
  if (health.check !== usual) fields.push(['check', health.check]);
  if (health.everyMs !== undefined && health.everyMs !== 5000)
    fields.push(['every', durationText(health.everyMs)]);
  if (health.timeoutMs !== undefined && health.timeoutMs !== 2000)
    fields.push(['timeout', durationText(health.timeoutMs)]);
  if (health.rise !== undefined && health.rise !== 2) fields.push(['rise', String(health.rise)]);
  if (health.fall !== undefined && health.fall !== 3) fields.push(['fall', String(health.fall)]);
  if (health.path !== undefined) fields.push(['path', scalar(health.path)]);
  if (health.serverName !== undefined) fields.push(['serverName', scalar(health.serverName)]);
  return mapLine('health', fields);
}

function mapLine(key: string, fields: readonly (readonly [string, string])[]): string[] {
  if (fields.length === 0) return [];
  return [`${key}: { ${fields.map(([name, value]) => `${name}: ${value}`).join(', ')} }`];
}

/** On one line if it fits. */
function listLines(key: string, values: readonly string[], indent: number): string[] {
  const space = ' '.repeat(indent);
  const line = `${space}${key}: ${list(values)}`;
  if (line.length <= LINE) return [line];
  return [`${space}${key}:`, ...values.map(value => `${space}  - ${scalar(value)}`)];
}

function list(values: readonly string[]): string {
  return `[${values.map(scalar).join(', ')}]`;
}

const PLAIN = /^[A-Za-z/][A-Za-z0-9._/-]*(?::\d+)?$|^\d{1,3}(?:\.\d{1,3}){3}(?::\d+|\/\d+)?$/;
const RESERVED = /^(?:true|false|null|yes|no|on|off|y|n)$/i;

function scalar(text: string): string {
  return PLAIN.test(text) && !RESERVED.test(text) ? text : JSON.stringify(text);
}

function comment(text: string): string {
  return `# ${printable(text)}`;
}

function hex(tlv: number): string {
  return `0x${tlv.toString(16).padStart(2, '0')}`;
}

function durationText(ms: number): string {
  const whole = (unit: number) => ms % unit === 0;
  if (whole(3_600_000)) return `${ms / 3_600_000}h`;
  if (whole(60_000)) return `${ms / 60_000}m`;
  return whole(1000) ? `${ms / 1000}s` : `${Math.round(ms)}ms`;
}
