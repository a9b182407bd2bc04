// What HAProxy cannot do of a valid file, by place. `run --engine haproxy` and `render haproxy` refuse what would change
// who reaches what or could not be served; the rest is served differently, and `check` says how. docs/haproxy.md has the
// same list.

import type { Cluster, Route } from '../cluster/cluster.ts';
import type { Config, Listener } from '../config/config.ts';
import { formatPath, type Path } from '../config/mistake.ts';
import { pathOfKind } from '../config/path-of-kind.ts';
import { type HaproxyVersion, readsAnyTlv, UNIQUE_ID_TLV } from './haproxy-version.ts';

export interface Unsupported {
  /** As in messages: `listen[0].agents`. */
  readonly path: string;
  readonly text: string;
  /** Whether the file is refused; otherwise it is served, with this difference. */
  readonly isRefused: boolean;
}

/** The defaults of the file: what nobody changed is not worth a word. */
const DEFAULT_PENDING = 10_000;

/** Without a version: for engine haproxy, whose script (engine-script.ts) can do more than HAProxy itself. */
export function unsupportedByHaproxy(config: Config, version?: HaproxyVersion): readonly Unsupported[] {
  const found = new Found();
  for (const [i, listener] of config.listen.entries()) {
    if (version === undefined) ofEngine(listener, ['listen', i], found);
    else ofListener(listener, ['listen', i], version, found);
  }
  if (config.identity !== undefined) {
    found.refuse(
      ['identity'],
      'HAProxy cannot verify signatures, so it would trust every id: remove identity, or use another engine',
    );
  }
  if (config.tunnel !== undefined)
    found.refuse(['tunnel'], "HAProxy cannot end agents' tunnels: remove tunnel, or use another engine");
  for (const [i, cluster] of config.clusters.entries()) ofCluster(cluster, ['clusters', i], found);
  const { pending, pendingPerSource } = config.limits;
  if (pending !== DEFAULT_PENDING)
    found.differ(['limits', 'pending'], 'HAProxy does not limit connections that are not routed yet');
  if (pendingPerSource !== undefined && pendingPerSource !== Math.ceil(pending / 10))
    found.differ(['limits', 'pendingPerSource'], 'HAProxy does not limit them by source');
  ofEveryFile(found, version === undefined);
  if (config.clusters.some(({ routes }) => routes.some(({ kind }) => kind === 'apps-http'))) {
    found.differ(
      ['engine'],
      'HAProxy reads cleartext HTTP with its own parser, which mends some requests that our engines refuse with 400, passes trailers on as they are, and takes FIN behind a request for a client that has left',
    );
  }
  return found.all;
}

/** The same for `render haproxy`: a file for a HAProxy that nobody drives. */
export function notRendered(config: Config, version: HaproxyVersion): readonly Unsupported[] {
  const found = new Found();
  for (const [i, { port }] of config.listen.entries()) {
    if (port === 0) found.refuse(['listen', i], 'HAProxy cannot take any free port: give the port');
  }
  if (config.sources.length > 0)
    found.differ(['sources'], 'the clusters that sources bring are not in what is rendered');
  // What is true of every file is in docs/haproxy.md.
  const others = unsupportedByHaproxy(config, version).filter(({ path }) => path !== 'engine');
  return [...others, ...found.all];
}

class Found {
  readonly all: Unsupported[] = [];

  refuse(path: Path, text: string): void {
    this.all.push({ path: formatPath(path), text, isRefused: true });
  }

  differ(path: Path, text: string): void {
    this.all.push({ path: formatPath(path), text, isRefused: false });
  }
}

function ofEngine({ agents }: Listener, path: Path, found: Found): void {
  if (agents.length > 0) found.differ([...path, 'agents'], 'on HAProxy, agents cannot use CONNECT');
}

function ofListener(listener: Listener, path: Path, version: HaproxyVersion, found: Found): void {
  const { agents, balancers, idTlv } = listener;
  const mandatory = (who: string) =>
    `HAProxy expects a PROXY header on every connection from ${who}: one without is closed`;
  if (balancers.length > 0) found.differ([...path, 'balancers'], mandatory('a balancer'));
  if (agents.length === 0) return;
  if (balancers.length > 0) {
    found.refuse(
      [...path, 'agents'],
      "HAProxy reads one PROXY header, not an agent's behind a balancer's: give agents a listener of their own",
    );
  }
  found.differ([...path, 'agents'], `${mandatory('an agent')}; agents cannot use CONNECT`);
  if (readsAnyTlv(version)) return;
  const only = `HAProxy ${version.text} reads an id only from TLV 0x05 (UNIQUE_ID); 2.9 and newer read any`;
  if (!idTlv.includes(UNIQUE_ID_TLV))
    found.refuse([...path, 'idTlv'], `${only}: add 0x05, and let agents send it`);
  else if (idTlv.length > 1) found.differ([...path, 'idTlv'], only);
}

function ofCluster(cluster: Cluster, path: Path, found: Found): void {
  if (cluster.identityRequired)
    found.refuse([...path, 'identity'], 'HAProxy cannot verify signatures: use another engine');
  for (const route of cluster.routes) ofRoute(route, [...path, ...pathOfKind(route.kind)], found);
}

function ofRoute(route: Route, path: Path, found: Found): void {
  if (route.connect.length > 0)
    found.refuse(
      [...path, 'connect'],
      'HAProxy cannot route CONNECT: remove the names, or use another engine',
    );
}

/** True of every file, so without a place of its own. */
function ofEveryFile(found: Found, hasScript: boolean): void {
  const whom = hasScript ? 'whose backend it cannot reach' : 'that it refuses';
  found.differ(['engine'], `HAProxy sends no TLS alert to a client ${whom}: it closes the connection`);
  found.differ(['engine'], 'HAProxy reads a ClientHello only from one TLS record');
  found.differ(
    ['engine'],
    'HAProxy keeps open connections when their route is gone or their client is no longer allowed',
  );
}
