// What would happen to a connection, and why: the stages' own lookups on a table of the given clusters, without a
// socket. Where the answer depends on who asks and nobody is named, it says so instead of guessing.

import type { Cluster } from '../cluster/cluster.ts';
import { normalizeHost } from '../cluster/hostname.ts';
import { formatIp, parseIp } from '../wire/ip-address.ts';
import { isAllowed } from './admit.ts';
import { hashKeyOf } from './balance.ts';
import type { CloseReason } from './close-reason.ts';
import { compileListener, type ListenerEntry, type TableListener } from './listener-table.ts';
import { pickBest } from './rendezvous.ts';
import { routeConnect, routeHttp, routeTls } from './route.ts';
import { Table, type TableRoute } from './table.ts';
import { TableAuthor } from './table-author.ts';

export const questionProtocols = ['tls', 'http', 'connect'] as const;

export interface Question {
  /** SNI, Host or CONNECT name. */
  readonly host: string;
  readonly from?: string;
  readonly protocol: (typeof questionProtocols)[number];
  /** Given in a PROXY header. */
  readonly id?: string;
  /** A listener's `on`. */
  readonly on?: string;
}

export const stages = ['accept', 'identify', 'route', 'admit', 'dial'] as const;
export type Stage = (typeof stages)[number];

export interface Explanation {
  readonly served: boolean;
  readonly reason: CloseReason | null;
  readonly cluster: string | null;
  readonly route: string | null;
  /** null also where every connection may get another. */
  readonly backend: string | null;
  readonly stages: readonly { readonly stage: Stage; readonly ok: boolean; readonly text: string }[];
}

/** The listener asked for does not exist, or the address is none. */
export class QuestionError extends Error {
  readonly code = 'ERR_QUESTION';
}

/** What health checks say; where nobody checks, everything is up. */
export type IsUp = (cluster: string, route: string, backend: string) => boolean;

export class Explainer {
  readonly #table = new Table();
  readonly #listeners: readonly ListenerEntry[];
  readonly #isUp: IsUp;

  constructor(clusters: readonly Cluster[], listeners: readonly ListenerEntry[], isUp: IsUp = () => true) {
    this.#isUp = isUp;
    const { put } = new TableAuthor().change(clusters, backend => [backend.host]);
    this.#table.apply([], put);
    this.#listeners = listeners;
  }

  explain(question: Question): Explanation {
    const client = question.from === undefined ? undefined : parseIp(question.from);
    if (question.from !== undefined && client === undefined) {
      throw new QuestionError(`The address to come from must be an IPv4 or IPv6 address: ${question.from}`);
    }
    const entry = this.#listener(question);
    const listener = compileListener(entry);
    const told = new Told();
    told.say(
      'accept',
      true,
      `on ${entry.on}${entry.only ? `, which shows only ${entry.only.join(', ')}` : ''}`,
    );
    const refused = identify(told, question, listener, client);
    if (refused !== undefined) return told.refuse(refused);
    const route = this.#route(question, listener);
    if (typeof route === 'string') {
      told.say('route', false, this.#whyNoRoute(question, entry, route));
      return told.refuse(route);
    }
    told.route = route;
    const signed = route.cluster.identityRequired && (question.protocol === 'connect' || question.id);
    told.say(
      'route',
      true,
      `${describeMatch(question, route)} → cluster '${route.cluster.name}', route '${route.kind}'${signed ? ', and the id must be signed' : ''}`,
    );
    if (client !== undefined && !isAllowed(route, client, 0)) {
      told.say('admit', false, `${formatIp(client, 0)} is not in the allow list of the cluster or the route`);
      return told.refuse('not-allowed');
    }
    told.say('admit', true, describeAdmission(route, client));
    return dial(told, question, route, client, this.#isUp);
  }

  /** The one asked for; else the first that shows what is asked for; else the first. */
  #listener(question: Question): ListenerEntry {
    if (question.on !== undefined) {
      const found = this.#listeners.find(entry => entry.on === question.on);
      if (found !== undefined) return found;
      const known = this.#listeners.map(entry => `'${entry.on}'`).join(', ');
      throw new QuestionError(`There is no listener '${question.on}'; there are ${known}`);
    }
    return (
      this.#listeners.find(entry => typeof this.#route(question, compileListener(entry)) !== 'string') ??
      this.#listeners[0]
    );
  }

  #route(question: Question, listener: TableListener): TableRoute | CloseReason {
    const host = normalizeHost(question.host);
    if (question.protocol === 'connect') return routeConnect(this.#table, listener, host);
    if (question.protocol === 'http') return routeHttp(this.#table, listener, host);
    return routeTls(this.#table, listener, host, [], question.id);
  }

  #whyNoRoute(question: Question, entry: ListenerEntry, reason: CloseReason): string {
    if (reason === 'unknown-cluster') return `no cluster has the id '${question.id}'`;
    if (reason === 'no-sni') return `'${question.host}' cannot be a server name, and no id names the cluster`;
    const { only: _, ...showsAll } = entry;
    const elsewhere = this.#route(question, compileListener(showsAll));
    if (typeof elsewhere !== 'string') {
      return `'${question.host}' is a host of cluster '${elsewhere.cluster.name}', but ${entry.on} does not show '${elsewhere.kind}'`;
    }
    return `no cluster has '${question.host}'`;
  }
}

class Told {
  route: TableRoute | undefined;
  readonly #stages: { stage: Stage; ok: boolean; text: string }[] = [];

  say(stage: Stage, ok: boolean, text: string): void {
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

function identify(
  told: Told,
  question: Question,
  listener: TableListener,
  client: Uint8Array | undefined,
): CloseReason | undefined {
  const words = { tls: 'TLS with server name', http: 'HTTP with Host', connect: 'CONNECT to' }[
    question.protocol
  ];
  const what = `${words} '${question.host}'${question.id === undefined ? '' : `, PROXY header with id '${question.id}'`}`;
  if (question.protocol === 'connect' || question.id !== undefined) {
    if (listener.agents === undefined || (client !== undefined && !listener.agents.admits(client, 0))) {
      const who = client === undefined ? 'nobody' : formatIp(client, 0);
      const why =
        client === undefined ? `is in agents of ${listener.on}` : `is not in agents of ${listener.on}`;
      told.say('identify', false, `${what}; ${who} ${why}`);
      return 'untrusted-agent';
    }
    told.say('identify', true, `${what}; ${client === undefined ? 'for those in agents' : 'from an agent'}`);
    return undefined;
  }
  told.say('identify', true, `${what}${client === undefined ? '' : ` from ${formatIp(client, 0)}`}`);
  return undefined;
}

function describeMatch(question: Question, route: TableRoute): string {
  const host = normalizeHost(question.host);
  if (route.hosts.includes(host)) return `exact host '${host}'`;
  const wildcard = route.hosts.find(pattern => pattern.startsWith('*.') && host.endsWith(pattern.slice(1)));
  if (wildcard !== undefined) return `wildcard '${wildcard}'`;
  if (question.id !== undefined) return `id '${question.id}' and no host of its own`;
  return `CONNECT name '${host}'`;
}

function describeAdmission(route: TableRoute, client: Uint8Array | undefined): string {
  const listed = route.cluster.allow !== undefined || route.allow !== undefined;
  const who = !listed
    ? 'anyone is allowed'
    : client === undefined
      ? 'an allow list applies: name the client to have it looked up'
      : `${formatIp(client, 0)} is allowed`;
  const limits = Object.entries(route.cluster.limits).map(([key, value]) => `${key} ${value}`);
  return limits.length === 0 ? who : `${who}; limits: ${limits.join(', ')}`;
}

function dial(
  told: Told,
  question: Question,
  route: TableRoute,
  client: Uint8Array | undefined,
  isUp: IsUp,
): Explanation {
  if (route.redirect) {
    told.say('dial', true, 'no backend: answered with 308 to https');
    return told.serve(null);
  }
  if (route.backends.length === 0) {
    told.say('dial', false, 'the pool is empty');
    return told.refuse('no-backend');
  }
  const texts = route.backends.map(backend => backend.text);
  const up = texts.filter(text => isUp(route.cluster.name, route.kind, text));
  // As firstBackend() does: those that are down are passed over while another is up.
  const choice = up.length === 0 ? texts : up;
  const first = firstOf(choice, route, hashKeyOf(route, normalizeHost(question.host), client));
  told.say('dial', true, `${describeChoice(choice, first, route.balance)}${describeHealth(texts, up)}`);
  return told.serve(first);
}

/** null where it is not the client or the host that decides. */
function firstOf(choice: readonly string[], route: TableRoute, key: number | undefined): string | null {
  if (choice.length === 1) return choice[0];
  if (key === undefined) return null;
  const best = pickBest(key, route.hashes, index => !choice.includes(route.backends[index].text));
  return route.backends[best].text;
}

function describeChoice(choice: readonly string[], first: string | null, balance: string): string {
  if (choice.length === 1) return choice[0];
  return first === null ? `one of ${choice.join(', ')}, by ${balance}` : `${first} first, by ${balance}`;
}

function describeHealth(texts: readonly string[], up: readonly string[]): string {
  if (up.length === texts.length) return '';
  if (up.length > 0) return `; down: ${texts.filter(text => !up.includes(text)).join(', ')}`;
  return `; ${texts.length === 1 ? 'it is' : 'all are'} down, and tried all the same`;
}
