// The last steps of every import: clusters, listeners, the text of causeway.yaml, and the proof that it can be read. A
// part that our own reader refuses is left out and reported, so that the file always passes `causeway check`.

import { formatMistake, readConfig } from '../config/read-config.ts';
import { type GroupedCluster, type GroupedRoute, groupClusters } from './group-clusters.ts';
import { byImportPlace, type Imported, type ImportedListener, type ImportFinding } from './imported.ts';
import { type SettledListener, separateKinds, settleListeners } from './settle-listeners.ts';
import { writeYaml } from './write-yaml.ts';

/** Findings with the same text are one; this many of their lines are named. */
const MAX_LINES = 12;

export interface FinishedImport {
  /** The text of causeway.yaml. */
  readonly yaml: string;
  readonly findings: readonly ImportFinding[];
  readonly counts: { readonly clusters: number; readonly routes: number };
}

/** `program` is `haproxy`, `nginx` or `traefik`. */
export function finishImport(imported: Imported, program: string): FinishedImport {
  const findings = [...imported.findings];
  const add = (finding: ImportFinding) => findings.push(finding);
  const grouped = groupClusters(imported.entries, imported.listeners, add).map(cluster =>
    settled(cluster, add),
  );
  separateKinds(imported.listeners, grouped, add);
  const start = { file: imported.files[0], line: 1, column: 1 };
  const merged = () => mergeEqual(findings, imported.files);
  const write = (clusters: readonly GroupedCluster[], on: readonly SettledListener[]) =>
    writeYaml(
      imported,
      program,
      on,
      clusters,
      merged().filter(({ kind }) => kind === 'not carried over'),
    );
  const { clusters, listeners } = readable(grouped, imported.listeners, write, start, add);
  const counts = { clusters: clusters.length, routes: countRoutes(clusters) };
  return { yaml: write(clusters, listeners), findings: merged(), counts };
}

function countRoutes(clusters: readonly GroupedCluster[]): number {
  return clusters.reduce((sum, { routes }) => sum + routes.length, 0);
}

/** Agents of konnectivity look for every server: source balancing would always show them the same one. */
function settled(cluster: GroupedCluster, add: (finding: ImportFinding) => void): GroupedCluster {
  const routes = cluster.routes.map(route => {
    const { balance, balancePlace, ...pool } = route.pool;
    if (route.kind !== 'konnectivity' || balance !== 'source') return route;
    add({
      place: balancePlace ?? pool.place,
      kind: 'warning',
      text: `source balancing under konnectivity starves all servers but one, since an agent must reach each of them: '${pool.name}' is balanced round-robin here`,
    });
    return { ...route, pool };
  });
  return { ...cluster, routes };
}

/** Leaves out clusters, then listeners, until our own reader accepts the file. */
function readable(
  clusters: readonly GroupedCluster[],
  given: readonly ImportedListener[],
  write: (clusters: readonly GroupedCluster[], listeners: readonly SettledListener[]) => string,
  start: ImportFinding['place'],
  add: (finding: ImportFinding) => void,
): { clusters: readonly GroupedCluster[]; listeners: readonly SettledListener[] } {
  const none: SettledListener = { on: ':6443', port: 6443, name: 'nothing was carried over', place: start };
  /** By `on`. */
  const gone = new Set<string>();
  let left = clusters;
  for (;;) {
    const settled = settleListeners(given, left).filter(({ on }) => !gone.has(on));
    const [first = none] = given.filter(({ on }) => !gone.has(on));
    const listeners = settled.length === 0 ? [first] : settled;
    const read = readConfig(write(left, listeners), 'causeway.yaml');
    if (read.ok) return { clusters: left, listeners };
    const [mistake] = read.mistakes;
    const listener = /^listen\[(\d+)\]/.exec(mistake.path)?.[1];
    const text = formatMistake('causeway.yaml', { ...mistake, line: 0 });
    const broken = read.mistakes.filter(({ path }) => path.startsWith('clusters['));
    if (broken.length > 0) {
      const wrong = new Map(broken.map(one => [routeOf(one.path), one.text] as const));
      const before = countRoutes(left);
      left = left.flatMap((cluster, index) => {
        const { name, routes } = cluster;
        const faultOf = ({ kind }: GroupedRoute) => wrong.get(`${index} ${kind}`) ?? wrong.get(`${index} `);
        for (const route of routes) {
          const text = faultOf(route);
          if (text !== undefined)
            add({
              place: route.place,
              kind: 'not carried over',
              text: `route '${route.kind}' of '${name}': ${text}`,
            });
        }
        const good = routes.filter(route => faultOf(route) === undefined);
        return good.length === 0 ? [] : [{ ...cluster, routes: good }];
      });
      // Every round must leave something out.
      if (countRoutes(left) === before) left = [];
    } else if (listener !== undefined && !gone.has(listeners[Number(listener)].on)) {
      const wrong = listeners[Number(listener)];
      gone.add(wrong.on);
      add({ place: wrong.place, kind: 'not carried over', text: `listener '${wrong.on}': ${text}` });
    } else {
      add({ place: start, kind: 'not carried over', text });
      return { clusters: [], listeners: [none] };
    }
  }
}

/** `1 api` of `clusters[1].api.hosts[0]`; `1 ` if the mistake is about the whole cluster. */
function routeOf(path: string): string {
  const [, index, rest] = /^clusters\[(\d+)\]\.?(.*)$/.exec(path) ?? ['', '', ''];
  const [first, second] = rest.split(/[.[]/, 2);
  if (first === 'api' || first === 'konnectivity') return `${index} ${first}`;
  if (first === 'apps' && (second === 'https' || second === 'http')) return `${index} apps-${second}`;
  const own = /^routes\.([a-z0-9-]+)/.exec(rest)?.[1];
  return `${index} ${own ?? ''}`;
}

/** The same sentence about several lines is said once. */
function mergeEqual(findings: readonly ImportFinding[], files: readonly string[]): ImportFinding[] {
  const order = byImportPlace(files);
  const byText = new Map<string, ImportFinding[]>();
  for (const finding of findings.toSorted((a, b) => order(a.place, b.place))) {
    const key = `${finding.kind} ${finding.place.file} ${finding.text}`;
    const same = byText.get(key);
    if (same === undefined) byText.set(key, [finding]);
    else same.push(finding);
  }
  return [...byText.values()].map(same => {
    const lines = [...new Set(same.slice(1).map(({ place }) => place.line))].filter(
      line => line !== same[0].place.line,
    );
    if (lines.length === 0) return same[0];
    const more = lines.length > MAX_LINES ? ` and ${lines.length - MAX_LINES} more` : '';
    const tail = ` (also line${lines.length === 1 ? '' : 's'} ${lines.slice(0, MAX_LINES).join(', ')}${more})`;
    const differsFor = same[0].differsFor && ((host: string) => same.some(one => one.differsFor?.(host)));
    return { ...same[0], text: same[0].text + tail, ...(differsFor && { differsFor }) };
  });
}
