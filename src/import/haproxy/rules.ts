// The rules of a frontend in HAProxy's order: first the gates (tcp-request, http-request), then use_backend from top to
// bottom, then default_backend; and what they do with a connection.

import { wildcardOf } from '../../cluster/hostname.ts';
import { hostSet } from '../host-set.ts';
import type { Place } from '../imported.ts';
import {
  type AclContext,
  ALWAYS,
  type Condition,
  type Connection,
  evaluate,
  readAcls,
  readCondition,
} from './acl.ts';
import { type HostMap, readSubject, type Subject } from './expression.ts';
import { linesOf, type Section } from './sections.ts';
import type { Line, Word } from './tokenize.ts';
import { complement, intersection } from './verdict.ts';

export interface Rule {
  readonly place: Place;
  /** As written, for messages. */
  readonly text: string;
  readonly condition: Condition;
  readonly action: 'accept' | 'reject' | 'redirect' | 'use' | 'default';
  /** For `use` and `default`: a name, or an expression. */
  readonly target?: Target;
}

export interface Target {
  readonly before: string;
  /** Absent for a fixed name, which is `before`. */
  readonly subject?: Subject;
  readonly after: string;
}

export interface Rules {
  /** By stage: an accept ends its own stage only. */
  readonly gates: readonly (readonly Rule[])[];
  readonly routes: readonly Rule[];
  readonly acls: ReadonlyMap<string, readonly { readonly place: Place; readonly text: string }[]>;
  /** Names of ACLs that some rule uses. */
  readonly usedAcls: ReadonlySet<string>;
  /** Lines that became rules, variables or ACLs. */
  readonly taken: ReadonlySet<Line>;
}

export interface Outcome {
  /** The rule that decides; undefined if none does. */
  readonly rule?: Rule;
  /** Of a backend; undefined if the connection is refused. */
  readonly backend?: string;
  readonly redirect?: boolean;
  readonly allow?: readonly string[];
  /** Rules that may or may not apply: they were left out. */
  readonly skipped: readonly Rule[];
  /** A later rule for clients that are not in `allow`. */
  readonly otherwise?: Rule;
}

/** A longer list of admitted clients would rather hide than tell. */
const MAX_ALLOWED = 300;
const GATES = ['connection', 'session', 'content'] as const;
const REJECTS = new Set(['reject', 'deny', 'silent-drop', 'tarpit']);
const ACCEPTS = new Set(['accept', 'allow']);

export function readRules(section: Section, base: Omit<AclContext, 'acls' | 'variables'>): Rules {
  const taken = new Set<Line>();
  const variables = readVariables(section, base, taken);
  const lines = [...section.inherited, ...section.lines];
  const acls = readAcls(lines, { ...base, variables });
  const context: AclContext = { ...base, variables, acls };
  const usedAcls = new Set<string>();
  const conditionOf = ({ words }: Line): Condition => {
    for (const word of words) usedAcls.add(word.text.replace(/^!+/, ''));
    return readCondition(words, context);
  };
  const gates = GATES.map(stage =>
    linesOf(section, 'tcp-request', stage).flatMap(line => gate(line, 2, conditionOf, taken)),
  );
  gates.push(linesOf(section, 'http-request').flatMap(line => gate(line, 1, conditionOf, taken)));
  gates.push(linesOf(section, 'redirect').flatMap(line => gate(line, 0, conditionOf, taken)));
  const routes: Rule[] = [];
  for (const line of linesOf(section, 'use_backend')) {
    taken.add(line);
    const target = readTarget(line.words[1], context);
    if (target !== undefined)
      routes.push({
        place: line.place,
        text: textOf(line),
        action: 'use',
        target,
        condition: conditionOf(line),
      });
  }
  const last = linesOf(section, 'default_backend').at(-1);
  if (last?.words[1] !== undefined) {
    taken.add(last);
    const target = { before: last.words[1].text, after: '' };
    routes.push({ place: last.place, text: textOf(last), action: 'default', target, condition: ALWAYS });
  }
  for (const line of lines) if (line.words[0].text === 'acl') taken.add(line);
  return { gates, routes, acls, usedAcls, taken };
}

/** Variables that every connection gets, by name. */
function readVariables(
  section: Section,
  base: Omit<AclContext, 'acls' | 'variables'>,
  taken: Set<Line>,
): ReadonlyMap<string, string> {
  const variables = new Map<string, string>();
  const twice = new Set<string>();
  for (const line of [...section.inherited, ...section.lines]) {
    const words = line.words;
    const at = words[0].text === 'http-request' ? 1 : words[0].text === 'tcp-request' ? 2 : -1;
    const match = at < 0 ? null : /^set-var\(([^,)]+)/.exec(words[at]?.text ?? '');
    const value = words[at + 1]?.text;
    if (match === null || value === undefined) continue;
    const [, name] = match;
    const condition = readCondition(words, { ...base, variables, acls: new Map() });
    const isCertain = evaluate(condition, { protocol: 'tls', host: 'x', id: undefined, port: 0 }) === 'yes';
    if (variables.has(name) || !isCertain) twice.add(name);
    variables.set(name, value);
    taken.add(line);
  }
  for (const name of twice) variables.delete(name);
  return variables;
}

function gate(line: Line, at: number, conditionOf: (line: Line) => Condition, taken: Set<Line>): Rule[] {
  const action = line.words[at]?.text ?? '';
  const isRedirect = action === 'redirect' && isToHttps(line.words.slice(at + 1));
  if (!REJECTS.has(action) && !ACCEPTS.has(action) && !isRedirect) return [];
  taken.add(line);
  const kind = isRedirect ? 'redirect' : REJECTS.has(action) ? 'reject' : 'accept';
  return [{ place: line.place, text: textOf(line), action: kind, condition: conditionOf(line) }];
}

function isToHttps(words: readonly Word[]): boolean {
  return words[0]?.text === 'scheme' && words[1]?.text === 'https';
}

/** `name`, `%[expression]` or `prefix%[expression]suffix`. */
function readTarget(word: Word | undefined, context: AclContext): Target | undefined {
  if (word === undefined) return undefined;
  const match = /^([^%]*)%\[(.*)\]([^\]]*)$/.exec(word.text);
  if (match === null) return { before: word.text, after: '' };
  const [, before, expression, after] = match;
  return { before, subject: readSubject(expression, context).subject, after };
}

function textOf({ words }: Line): string {
  const text = words.map(word => word.text).join(' ');
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}

/** What the rules do with that connection. `exists` tells which backends there are. */
export function outcomeOf(rules: Rules, connection: Connection, exists: (name: string) => boolean): Outcome {
  const skipped: Rule[] = [];
  const passed = passGates(rules.gates, connection, skipped);
  if (passed.rule !== undefined) return { ...passed, skipped };
  let { allow } = passed;
  for (const [index, rule] of rules.routes.entries()) {
    const verdict = evaluate(rule.condition, connection);
    if (verdict === 'no') continue;
    const target = verdict === 'unknown' ? undefined : backendOf(rule, connection);
    if (target === undefined) {
      skipped.push(rule);
      continue;
    }
    const isSome = typeof verdict === 'object';
    if (isSome) allow = allow === undefined ? verdict.in : intersection(allow, verdict.in);
    const later = isSome ? rules.routes.slice(index + 1) : [];
    const otherwise = later.find(other => evaluate(other.condition, connection) !== 'no');
    // HAProxy falls back to the default if an expression names no backend.
    const isMissing = rule.target?.subject !== undefined && !exists(target);
    const fallback = rules.routes.find(({ action }) => action === 'default');
    const backend = isMissing ? fallback?.target?.before : target;
    return {
      rule: isMissing && fallback !== undefined ? fallback : rule,
      ...(backend !== undefined && { backend }),
      ...(allow !== undefined && { allow }),
      ...(otherwise !== undefined && { otherwise }),
      skipped,
    };
  }
  return { skipped };
}

/** With a rule if that decides: a refusal, or a redirect. */
function passGates(
  gates: Rules['gates'],
  connection: Connection,
  skipped: Rule[],
): { rule?: Rule; redirect?: boolean; allow?: readonly string[] } {
  let allow: readonly string[] | undefined;
  for (const stage of gates) {
    const accepted: string[] = [];
    for (const rule of stage) {
      const verdict = evaluate(rule.condition, connection);
      if (verdict === 'no') continue;
      const only = typeof verdict === 'object' ? verdict.in : undefined;
      const others = only === undefined ? undefined : complement(only);
      if (rule.action === 'redirect' && verdict === 'yes') return { rule, redirect: true };
      if (rule.action === 'accept' && verdict === 'yes') break;
      if (rule.action === 'accept' && only !== undefined) accepted.push(...only);
      else if (rule.action === 'reject' && verdict === 'yes') {
        if (accepted.length === 0) return { rule };
        allow = allow === undefined ? accepted : intersection(allow, accepted);
        break;
      } else if (rule.action === 'reject' && others !== undefined && others.length <= MAX_ALLOWED) {
        const admitted = [...new Set([...others, ...accepted])];
        allow = allow === undefined ? admitted : intersection(allow, admitted);
        if (allow.length === 0) return { rule };
      } else skipped.push(rule);
    }
  }
  return allow === undefined ? {} : { allow };
}

/** The name of the backend; undefined if the expression is not one of ours. */
function backendOf({ target }: Rule, connection: Connection): string | undefined {
  if (target === undefined) return undefined;
  const { before, subject, after } = target;
  if (subject === undefined) return before;
  if (subject.kind !== 'sni' && subject.kind !== 'host-header' && subject.kind !== 'id') return undefined;
  const { host } = connection;
  const shown =
    subject.kind !== 'id' && subject.isWildcard === true && host !== undefined ? wildcardOf(host) : host;
  const value = subject.kind === 'id' ? connection.id : shown;
  if (subject.map === undefined) return `${before}${value ?? ''}${after}`;
  // Without a sample the converter is not called, so that its default does not apply either.
  const found = value === undefined ? '' : (mapLookup(subject.map, value) ?? subject.map.otherwise ?? '');
  return `${before}${found}${after}`;
}

/** map_str has its keys in a tree; the others are tried in the order of the file, longest first for beg and end. */
function mapLookup(map: HostMap, value: string): string | undefined {
  const index = indexOf(map);
  if (map.method === 'str') return index.exact.get(value);
  return index.sets.find(({ has }) => has(value))?.value;
}

interface MapIndex {
  readonly exact: ReadonlyMap<string, string>;
  readonly sets: readonly { has(value: string): boolean; readonly value: string }[];
}

const indexes = new WeakMap<HostMap, MapIndex>();

function indexOf(map: HostMap): MapIndex {
  const known = indexes.get(map);
  if (known !== undefined) return known;
  const exact = new Map<string, string>();
  for (const { key, value } of map.entries) if (!exact.has(key)) exact.set(key, value);
  const ordered =
    map.method === 'beg' ? map.entries.toSorted((a, b) => b.key.length - a.key.length) : map.entries;
  const sets = ordered.map(({ key, value }) => ({ has: hostSet(map.method, key, false).has, value }));
  const index = { exact, sets };
  indexes.set(map, index);
  return index;
}
