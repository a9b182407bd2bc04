// A frontend or listen section → entries: the rules are asked about every host and id that they name, about labels under
// every wildcard, about a host that nobody names and about no host at all. So the first rule that matches wins, as in
// HAProxy, and rules that never do are found.

import { isWildcard } from '../../cluster/hostname.ts';
import { append } from '../append.ts';
import { hostSet, isAmong } from '../host-set.ts';
import type { Entry, ImportedPool, Protocol } from '../imported.ts';
import { type Atom, atomsOf, type Connection, mapSet, type NamedSet } from './acl.ts';
import {
  type Candidates,
  type FrontendContext,
  reportOddities,
  reportRules,
  type Seen,
} from './rule-findings.ts';
import { type Outcome, outcomeOf, type Rule } from './rules.ts';

/** Labels to ask about under a wildcard: rules that treat them differently cannot be expressed by one. */
const LABELS = ['a', 'sample-7', 'zz9'];
const NOBODYS_HOST = 'nobody-names-this.invalid';
/** Ports on which TCP without any rule is rather HTTP than TLS. */
const HTTP_PORTS = new Set([80, 8080]);

export function readFrontend(context: FrontendContext): Entry[] {
  const { rules } = context;
  const atoms = [...rules.gates.flat(), ...rules.routes].flatMap(({ condition }) => atomsOf(condition));
  const named = candidates(atoms, rules.routes, context);
  reportOddities(named.sets, context);
  const seen: Seen = { used: new Set(), skipped: new Set(), otherwise: new Map(), takers: new Map() };
  const entries: Entry[] = [];
  for (const { index, port } of context.listeners) {
    const before = entries.length;
    for (const protocol of protocolsOf(context, atoms, port))
      append(entries, entriesOf(context, named, protocol, index, port, seen));
    for (const id of named.ids) {
      const outcome = ask(context, { protocol: 'tls', host: undefined, id, port }, seen);
      const pool = poolFor(context, outcome, port);
      if (pool !== undefined && outcome.rule?.action !== 'default')
        entries.push(entryOf(pool, outcome, 'tls', index, { id }));
    }
    if (entries.length === before && rules.routes.length > 0 && seen.skipped.size === 0 && port !== 0) {
      const [{ place }] = rules.routes;
      context.report(
        place,
        'not carried over',
        `'${context.name}' on port ${port}: no rule leads to a backend there`,
      );
    }
  }
  reportRules(context, named, seen);
  return entries;
}

function candidates(
  atoms: readonly Atom[],
  routes: readonly Rule[],
  { backends, report }: FrontendContext,
): Candidates {
  const hosts = new Set<string>();
  const ids = new Set<string>();
  const sets: NamedSet[] = [];
  const addSet = (set: NamedSet) => {
    sets.push(set);
    for (const host of set.hosts) hosts.add(host);
  };
  for (const atom of new Set(atoms)) {
    for (const set of atom.hostSets) addSet(set);
    for (const id of atom.ids) ids.add(id);
  }
  for (const { place, target } of routes) {
    const subject = target?.subject;
    if (subject?.kind !== 'sni' && subject?.kind !== 'host-header' && subject?.kind !== 'id') continue;
    const { before = '', after = '' } = target ?? {};
    if (subject.map === undefined) {
      for (const value of namedAfter(backends.keys(), before, after)) {
        if (subject.kind === 'id') ids.add(value);
        else addSet({ place, text: value, ...hostSet('str', value, false) });
      }
      continue;
    }
    for (const entry of subject.map.entries) {
      const name = `${before}${entry.value}${after}`;
      if (!backends.has(name))
        report(entry.place, 'warning', `there is no backend '${name}': the default applies`);
      if (subject.kind === 'id') ids.add(entry.key);
      else addSet(mapSet(subject, subject.map, entry));
    }
  }
  return { hosts, ids, sets };
}

/** What stands between prefix and suffix in names of backends. */
function namedAfter(names: Iterable<string>, before: string, after: string): string[] {
  return [...names]
    .filter(
      name => name.length > before.length + after.length && name.startsWith(before) && name.endsWith(after),
    )
    .map(name => name.slice(before.length, name.length - after.length));
}

/** TLS by SNI, or HTTP by Host. */
function protocolsOf({ mode }: FrontendContext, atoms: readonly Atom[], port: number): Protocol[] {
  if (mode === 'http') return ['http'];
  const kinds = new Set(atoms.map(({ subject }) => subject.kind));
  const isHttp = kinds.has('host-header') || (HTTP_PORTS.has(port) && !kinds.has('sni') && !kinds.has('id'));
  return kinds.has('sni') || kinds.has('id') || !isHttp ? (isHttp ? ['tls', 'http'] : ['tls']) : ['http'];
}

function entriesOf(
  context: FrontendContext,
  named: Candidates,
  protocol: Protocol,
  index: number,
  port: number,
  seen: Seen,
): Entry[] {
  const entries: Entry[] = [];
  const byHost = new Map<string, Entry>();
  const rest = ask(context, { protocol, host: NOBODYS_HOST, id: undefined, port }, seen);
  const nameless = ask(context, { protocol, host: undefined, id: undefined, port }, seen);
  const restPool = poolFor(context, rest, port);
  // Wildcards first: an exact host under one needs an entry of its own only if it leads elsewhere.
  for (const host of [...named.hosts].toSorted((a, b) => Number(isWildcard(b)) - Number(isWildcard(a)))) {
    const outcomes = samplesOf(host, named.hosts).map(sample =>
      ask(context, { protocol, host: sample, id: undefined, port }, seen),
    );
    const [outcome] = outcomes;
    if (outcome.rule !== undefined && !seen.takers.has(host)) seen.takers.set(host, outcome.rule);
    if (outcomes.some(other => other.backend !== outcome.backend || other.redirect !== outcome.redirect)) {
      context.report(
        outcome.rule?.place ?? context.rules.routes[0].place,
        'not carried over',
        `${host}: names under it lead to different backends there`,
      );
      continue;
    }
    const pool = poolFor(context, outcome, port);
    const wildcard = isWildcard(host) ? undefined : byHost.get(`*${host.slice(host.indexOf('.'))}`);
    if (pool === undefined) {
      const taker = wildcard?.host ?? (restPool === undefined ? undefined : '"*"');
      if (taker !== undefined)
        context.reportHosts(
          outcome.rule?.place ?? context.rules.routes[0].place,
          'warning',
          `${host} is refused there, but ${taker} takes it here: give it to a route without backends`,
          other => isAmong([host], other),
        );
      continue;
    }
    if (wildcard !== undefined && wildcard.pool === pool && sameList(wildcard.allow, outcome.allow)) continue;
    // The rest of the hosts has the same way.
    if (wildcard === undefined && pool === restPool && sameList(outcome.allow, rest.allow)) continue;
    const entry = entryOf(pool, outcome, protocol, index, { host });
    byHost.set(host, entry);
    entries.push(entry);
  }
  if (restPool !== undefined) {
    entries.push(entryOf(restPool, rest, protocol, index, { host: '*' }));
    if (protocol === 'tls' && rest.rule !== undefined)
      context.report(
        rest.rule.place,
        'warning',
        `'${rest.rule.text}' takes any bytes there; here "*" takes every other TLS connection, and nothing that is not TLS`,
      );
  }
  if (protocol === 'tls' && rest.backend !== nameless.backend) {
    const text =
      nameless.backend === undefined
        ? `connections without SNI are refused there, but "*" takes them here`
        : `connections without SNI go to '${nameless.backend}' there; "*" in hosts is for them and for unknown names alike`;
    const place = nameless.rule?.place ?? rest.rule?.place;
    if (place !== undefined) context.reportHosts(place, 'warning', text, host => host === '');
  }
  return entries;
}

/** Hosts that stand for a host of causeway.yaml; under a wildcard only those that have no entry of their own. */
function samplesOf(host: string, hosts: ReadonlySet<string>): string[] {
  if (!isWildcard(host)) return [host];
  return LABELS.map(label => `${label}${host.slice(1)}`).filter(sample => !hosts.has(sample));
}

function ask(context: FrontendContext, connection: Connection, seen: Seen): Outcome {
  const outcome = outcomeOf(context.rules, connection, name => context.backends.has(name));
  for (const rule of outcome.skipped) seen.skipped.add(rule);
  if (outcome.rule !== undefined) seen.used.add(outcome.rule);
  if (outcome.rule !== undefined && outcome.otherwise !== undefined)
    seen.otherwise.set(outcome.rule, outcome.otherwise);
  return outcome;
}

function poolFor(context: FrontendContext, outcome: Outcome, port: number): ImportedPool | undefined {
  const { rule, backend, redirect } = outcome;
  if (rule === undefined) return undefined;
  if (redirect === true) return redirectPool(rule);
  const pool = backend === undefined ? undefined : context.poolOf(backend, port, rule);
  return pool === 'refuses' ? undefined : pool;
}

const redirects = new WeakMap<Rule, ImportedPool>();

function redirectPool(rule: Rule): ImportedPool {
  const pool = redirects.get(rule) ?? { name: 'redirect', backends: [], redirect: true, place: rule.place };
  redirects.set(rule, pool);
  return pool;
}

function entryOf(
  pool: ImportedPool,
  { rule, allow }: Outcome,
  protocol: Protocol,
  listener: number,
  who: { host?: string; id?: string },
): Entry {
  return {
    ...who,
    protocol,
    listener,
    pool,
    ...(allow !== undefined && { allow }),
    place: rule?.place ?? pool.place,
  };
}

function sameList(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && a.join() === b.join());
}
