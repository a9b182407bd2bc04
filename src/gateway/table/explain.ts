// Explains what would happen to a connection, and why: the stages' own lookups on a table of the given clusters,
// without a socket. If the result depends on a client that was not named, it says so instead of guessing. Health is
// known only where a gateway runs. explain-route.ts explains why a name leads nowhere.

import type { Cluster } from '../../cluster/cluster.ts';
import { CATCH_ALL, normalizeHost, patternFor } from '../../cluster/hostname.ts';
import { formatIp, parseIp } from '../../wire/ip-address.ts';
import type { CloseReason } from '../close-reason.ts';
import { TUNNEL_SLOT } from '../shared/shared-memory.ts';
import { isAllowed } from '../stages/admit.ts';
import { hashKeyOf } from '../stages/balance.ts';
import { pickBest } from '../stages/rendezvous.ts';
import { entryWith, shownList, whyNotIn } from './explain-lists.ts';
import { routeOf, whyNoRoute } from './explain-route.ts';
import { compileListener, type ListenerEntry } from './listener-table.ts';
import type { Question } from './question.ts';
import { Table, type TableRoute } from './table.ts';
import { TableAuthor } from './table-author.ts';

export const stages = ['accept', 'identify', 'route', 'admit', 'dial'] as const;
export type Stage = (typeof stages)[number];

export interface Explanation {
  readonly served: boolean;
  readonly reason: CloseReason | null;
  /** null also for agents' tunnels, which end at the gateway itself. */
  readonly cluster: string | null;
  readonly route: string | null;
  /** null also where each connection may get another backend. */
  readonly backend: string | null;
  readonly stages: readonly { readonly stage: Stage; readonly ok: boolean; readonly text: string }[];
}

/** The requested listener does not exist, or the address is invalid. */
export class QuestionError extends Error {
  readonly code = 'ERR_QUESTION';
}

/** The context besides the clusters. */
export interface Surroundings {
  /** Hosts where agents' tunnels end. */
  readonly tunnelHosts?: readonly string[];
  /** The results of health checks; unknown without a running gateway. */
  readonly healthOf?: (cluster: string, kind: string, backend: string) => KnownHealth;
}

/** `up` is null if unknown: such a backend is tried like those that are up. */
interface KnownHealth {
  readonly up: boolean | null;
  readonly why?: string;
}

export class Explainer {
  readonly #table = new Table();
  readonly #clusters: ReadonlyMap<string, Cluster>;
  readonly #listeners: readonly ListenerEntry[];
  readonly #healthOf: NonNullable<Surroundings['healthOf']>;

  constructor(
    clusters: readonly Cluster[],
    listeners: readonly ListenerEntry[],
    { tunnelHosts = [], healthOf = () => ({ up: null }) }: Surroundings = {},
  ) {
    const { put } = new TableAuthor().change(clusters, backend => [backend.host]);
    this.#table.apply([], put);
    this.#table.putTunnels(tunnelHosts);
    this.#clusters = new Map(clusters.map(cluster => [cluster.name, cluster]));
    this.#listeners = listeners;
    this.#healthOf = healthOf;
  }

  explain(question: Question): Explanation {
    const client = question.from === undefined ? undefined : parseIp(question.from);
    if (question.from !== undefined && client === undefined) {
      throw new QuestionError(`The client address must be an IPv4 or IPv6 address: ${question.from}`);
    }
    const entry = this.#listener(question);
    const listener = compileListener(entry);
    const explained = new Explained();
    explained.add('accept', true, `on ${entry.on}${describeOnly(entry)}${describePort(entry, question)}`);

    const refused = identify(explained, question, entry, client);
    if (refused !== undefined) return explained.refuse(refused);

    const route = routeOf(this.#table, question, listener);
    if (typeof route === 'string') {
      explained.add('route', false, whyNoRoute(this.#table, question, entry, route));
      return explained.refuse(route);
    }
    if (route.slot === TUNNEL_SLOT) return endTunnel(explained, question);
    explained.route = route;
    const signed = route.cluster.identityRequired && (question.protocol === 'connect' || question.id);
    explained.add(
      'route',
      true,
      `${describeMatch(question, route)} → cluster '${route.cluster.name}', route '${route.kind}'${signed ? ', and the id must be signed' : ''}`,
    );

    const lists = this.#allowLists(route);
    if (client !== undefined && !isAllowed(route, client, 0)) {
      const refusing = lists.find(({ list }) => entryWith(list, client) === undefined);
      explained.add('admit', false, whyNotIn(refusing?.list ?? [], refusing?.name ?? 'allow', client));
      return explained.refuse('not-allowed');
    }
    explained.add('admit', true, describeAdmission(route, lists, client));
    const health = route.backends.map(({ text }) => this.#healthOf(route.cluster.name, route.kind, text));
    return dial(explained, route, hashKeyOf(route, normalizeHost(question.host), client), health);
  }

  /** The lists as written in the file. */
  #allowLists({ kind, cluster: { name } }: TableRoute): readonly NamedList[] {
    const cluster = this.#clusters.get(name);
    const own = cluster?.routes.find(route => route.kind === kind)?.allow;
    return [
      ...(cluster?.allow === undefined ? [] : [{ name: `allow of cluster '${name}'`, list: cluster.allow }]),
      ...(own === undefined ? [] : [{ name: `allow of its route '${kind}'`, list: own }]),
    ];
  }

  /** The requested one; otherwise the first that serves the requested route; otherwise the first. */
  #listener(question: Question): ListenerEntry {
    if (question.on !== undefined) {
      const found = this.#listeners.find(entry => entry.on === question.on);
      if (found !== undefined) return found;
      const known = this.#listeners.map(entry => `'${entry.on}'`).join(', ');
      throw new QuestionError(`There is no listener '${question.on}'; there are ${known}`);
    }
    const serves = (entry: ListenerEntry) =>
      typeof routeOf(this.#table, question, compileListener(entry)) !== 'string';
    const withPort = this.#listeners.filter(({ on }) => on.endsWith(`:${question.port}`));
    const candidates = withPort.length === 0 ? this.#listeners : withPort;
    return candidates.find(serves) ?? candidates[0];
  }
}

class Explained {
  route: TableRoute | undefined;
  readonly #stages: { stage: Stage; ok: boolean; text: string }[] = [];

  add(stage: Stage, ok: boolean, text: string): void {
    this.#stages.push({ stage, ok, text });
  }

  refuse(reason: CloseReason): Explanation {
    return this.#answer(reason, null);
  }

  serve(backend: string | null): Explanation {
    return this.#answer(null, backend);
  }

  #answer(reason: CloseReason | null, backend: string | null): Explanation {
    return {
      served: reason === null,
      reason,
      cluster: this.route?.cluster.name ?? null,
      route: this.route?.kind ?? null,
      backend,
      stages: this.#stages,
    };
  }
}

/** The tunnel's own listener serves no kind of route. */
function describeOnly({ only }: ListenerEntry): string {
  if (only === undefined) return '';
  return only.length === 0
    ? ", which serves only the end of the agents' tunnels"
    : `, which serves only ${only.join(', ')}`;
}

/** A load balancer or a firewall may map ports. */
function describePort({ on }: ListenerEntry, { port }: Question): string {
  return port === undefined || on.endsWith(`:${port}`) ? '' : `; no listener has port ${port}`;
}

/** A list of networks and its name in messages. */
interface NamedList {
  readonly name: string;
  readonly list: readonly string[];
}

function identify(
  explained: Explained,
  question: Question,
  { on, agents }: ListenerEntry,
  client: Uint8Array | undefined,
): CloseReason | undefined {
  const protocol = { tls: 'TLS with server name', http: 'HTTP with Host', connect: 'CONNECT to' }[
    question.protocol
  ];
  const what = `${protocol} '${question.host}'${question.id === undefined ? '' : `, PROXY header with id '${question.id}'`}`;
  if (question.protocol === 'connect' || question.id !== undefined) {
    const name = `agents of ${on}`;
    const entry = client === undefined ? undefined : entryWith(agents, client);
    if (agents.length === 0 || (client !== undefined && entry === undefined)) {
      const why = client === undefined ? `${name} is empty` : whyNotIn(agents, name, client);
      explained.add('identify', false, `${what}; ${why}`);
      return 'untrusted-agent';
    }
    const who =
      client === undefined
        ? `only for ${name}: ${shownList(agents)}`
        : `${formatIp(client, 0)} is in ${name}, by ${entry}`;
    explained.add('identify', true, `${what}; ${who}`);
    return undefined;
  }
  explained.add('identify', true, `${what}${client === undefined ? '' : ` from ${formatIp(client, 0)}`}`);
  return undefined;
}

function describeMatch(question: Question, route: TableRoute): string {
  const host = normalizeHost(question.host);
  const pattern = patternFor(host, route.hosts);
  if (pattern === host) return `exact host '${host}'`;
  if (pattern !== undefined && pattern !== CATCH_ALL) return `wildcard '${pattern}'`;
  if (question.id !== undefined) return `id '${question.id}', without a matching host`;
  if (question.protocol === 'connect') return `CONNECT name '${host}'`;
  return `catch-all '${CATCH_ALL}'`;
}

function describeAdmission(
  route: TableRoute,
  lists: readonly NamedList[],
  client: Uint8Array | undefined,
): string {
  const who =
    lists.length === 0
      ? 'anyone is allowed'
      : client === undefined
        ? `${lists.map(({ name }) => name).join(' and ')} applies: name the client to check it`
        : `${formatIp(client, 0)} is in ${lists.map(({ name, list }) => `${name}, by ${entryWith(list, client)}`).join('; and in ')}`;
  const limits = Object.entries(route.cluster.limits).map(([key, value]) => `${key} ${value}`);
  return limits.length === 0 ? who : `${who}; limits: ${limits.join(', ')}`;
}

/** TLS ends here, and each connection inside returns as a connection of its own. */
function endTunnel(explained: Explained, { host }: Question): Explanation {
  explained.add('route', true, `tunnel host '${normalizeHost(host)}' → the end of the agents' tunnels`);
  explained.add('admit', true, 'any client that offers the ALPN causeway/1; the id inside must be signed');
  explained.add('dial', true, 'no backend: TLS ends here, and the connection inside is served on its own');
  return explained.serve(null);
}

/** `key` is what the balance hashes. */
function dial(
  explained: Explained,
  route: TableRoute,
  key: number | undefined,
  health: readonly KnownHealth[],
): Explanation {
  if (route.redirect) {
    explained.add('dial', true, 'no backend: answered with 308 to https');
    return explained.serve(null);
  }
  if (route.backends.length === 0) {
    explained.add('dial', false, 'the pool is empty');
    return explained.refuse('no-backend');
  }
  const texts = route.backends.map(backend => backend.text);
  const isDown = (index: number) => health[index].up === false;
  const down = texts.flatMap((text, index) => (isDown(index) ? [describeDown(text, health[index].why)] : []));
  if (down.length === texts.length) {
    const which = down.length === 1 ? 'the only backend is down' : 'every backend is down';
    explained.add('dial', false, `would fail: connect-failed; ${which}, but still tried: ${down.join(', ')}`);
    return explained.refuse('connect-failed');
  }
  const choice = texts.filter((_, index) => !isDown(index));
  const first =
    choice.length === 1 ? choice[0] : key === undefined ? null : texts[pickBest(key, route.hashes, isDown)];
  const chosen =
    first === null
      ? `one of ${choice.join(', ')}, by ${route.balance}`
      : `${first}${choice.length === 1 ? '' : ` first, by ${route.balance}`}`;
  explained.add(
    'dial',
    true,
    `${chosen}${down.length === 0 ? '' : `; down and tried last: ${down.join(', ')}`}`,
  );
  return explained.serve(first);
}

function describeDown(backend: string, why: string | undefined): string {
  return why === undefined ? backend : `${backend} (${why})`;
}
