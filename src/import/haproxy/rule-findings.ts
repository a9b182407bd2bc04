// What the answers of the rules show about the rules themselves: those that cannot be carried over, those that never
// apply, and sets of hosts that are odd. read-frontend.ts asks.

import { isAmong } from '../host-set.ts';
import { type ImportedPool, type ImportFinding, type Place, placeText } from '../imported.ts';
import { atomsOf, type NamedSet } from './acl.ts';
import type { Report } from './pool.ts';
import { type Outcome, outcomeOf, type Rule, type Rules } from './rules.ts';

export interface FrontendContext {
  readonly rules: Rules;
  readonly name: string;
  readonly mode: string;
  /** Indexes of its listeners, and their ports. */
  readonly listeners: readonly { readonly index: number; readonly port: number }[];
  /** A backend by name, as it is for connections on that port. */
  poolOf(name: string, port: number, rule: Rule): ImportedPool | 'refuses' | undefined;
  /** Of all backends. */
  readonly backends: { has(name: string): boolean; keys(): Iterable<string> };
  report: Report;
  /** With the hosts that it is about. */
  reportHosts(
    place: Place,
    kind: ImportFinding['kind'],
    text: string,
    differsFor: (host: string) => boolean,
  ): void;
}

/** What the answers have shown about the rules. */
export interface Seen {
  /** Rules that decided something. */
  readonly used: Set<Rule>;
  readonly skipped: Set<Rule>;
  readonly otherwise: Map<Rule, Rule>;
  /** Which rule took a host. */
  readonly takers: Map<string, Rule>;
}

export interface Candidates {
  readonly hosts: ReadonlySet<string>;
  readonly ids: ReadonlySet<string>;
  readonly sets: readonly NamedSet[];
}

/** Rules that could not be carried over, and those that never apply. */
export function reportRules(context: FrontendContext, named: Candidates, seen: Seen): void {
  const { rules, report, reportHosts } = context;
  const hostsWhere = (fits: (outcome: Outcome) => boolean) => (host: string) =>
    context.listeners.some(({ port }) =>
      (['tls', 'http'] as const).some(protocol => {
        const connection = { protocol, host: host === '' ? undefined : host, id: undefined, port };
        return fits(outcomeOf(rules, connection, name => context.backends.has(name)));
      }),
    );
  /** Hosts that the rule may take. */
  const hostsOf = (rule: Rule) => hostsWhere(({ skipped }) => skipped.includes(rule));
  for (const rule of seen.skipped) {
    const reason = atomsOf(rule.condition).find(({ subject }) => subject.kind === 'other');
    const why =
      reason === undefined
        ? whyNot(rule)
        : `'${reason.text}' decides it, which is not known before the route`;
    reportHosts(rule.place, 'not carried over', `'${rule.text}': ${why}`, hostsOf(rule));
  }
  for (const rule of rules.gates.flat()) {
    const { action, condition, place, text } = rule;
    const isList = condition.terms.some(term =>
      term.some(
        one =>
          one.isNegated === condition.isUnless && one.atoms.some(({ subject }) => subject.kind === 'src'),
      ),
    );
    if (action === 'reject' && isList && !seen.skipped.has(rule))
      report(place, 'warning', `'${text}' becomes its opposite here: allow lists everybody else`);
  }
  for (const [rule, otherwise] of seen.otherwise)
    reportHosts(
      otherwise.place,
      'not carried over',
      `'${otherwise.text}' for clients that '${rule.text}' does not admit: here they are refused`,
      hostsWhere(outcome => outcome.rule === rule && outcome.otherwise !== undefined),
    );
  for (const rule of rules.routes) {
    if (rule.action !== 'use' || seen.used.has(rule) || seen.skipped.has(rule)) continue;
    const atoms = atomsOf(rule.condition);
    if (context.mode === 'http' && atoms.some(({ subject }) => subject.kind === 'sni')) {
      report(
        rule.place,
        'warning',
        `'${rule.text}' can never match: there is no SNI in mode http; use hdr(host)`,
      );
      continue;
    }
    const hosts = atomsOf(rule.condition).flatMap(atom => atom.hostSets.flatMap(set => set.hosts));
    const taker = hosts
      .map(host => [host, seen.takers.get(host)] as const)
      .find(([, other]) => other !== undefined);
    const earlier = taker?.[1];
    if (taker !== undefined && earlier !== undefined && earlier !== rule && earlier.action !== 'default')
      report(
        rule.place,
        'warning',
        `'${rule.text}' is shadowed: ${taker[0]} is already taken by the rule at ${placeText(earlier.place)}; remove one of them`,
      );
    else if (hosts.length > 0 && hosts.every(host => named.hosts.has(host)))
      report(rule.place, 'warning', `'${rule.text}' never applies: an earlier rule decides`);
    else
      reportHosts(
        rule.place,
        'not carried over',
        `'${rule.text}': ${whyNot(rule)}`,
        hostsWhere(outcome => outcome.rule === rule),
      );
  }
}

function whyNot(rule: Rule): string {
  const sets = atomsOf(rule.condition).flatMap(({ hostSets }) => hostSets);
  if (sets.some(set => set.hosts.length === 0))
    return 'its hosts are neither names nor *.x.y; name them in hosts';
  if (rule.action === 'reject')
    return 'a list of clients that are refused cannot be expressed; list those to admit in allow';
  if (rule.target?.subject?.kind === 'other')
    return `the expression '${rule.target.subject.text}' cannot be evaluated`;
  return 'its condition cannot be expressed';
}

export function reportOddities(sets: Candidates['sets'], context: FrontendContext): void {
  for (const set of sets) {
    if (set.oddities.length === 0) continue;
    const differsFor = (host: string) => set.has(host) !== isAmong(set.hosts, host);
    context.reportHosts(set.place, 'warning', `'${set.text}' ${set.oddities.join('; it ')}`, differsFor);
  }
}
