// HAProxy's configuration, of one or several files → what causeway.yaml can say of it. Pure: maps and lists of patterns
// come through `surroundings`.

import { append } from '../append.ts';
import type {
  Entry,
  Fault,
  Imported,
  ImportedListener,
  ImportedPool,
  ImportFinding,
  ImportResult,
  Place,
  SourceFile,
  Surroundings,
} from '../imported.ts';
import type { AclContext } from './acl.ts';
import { EVERYONE, expectsProxyFrom, readBinds, rivalOf } from './binds.ts';
import { leftOut, leftOutFindings } from './left-out.ts';
import { frontendOddities, poolOddities, sectionOddities } from './oddities.ts';
import { hasServers, type Report, readPool } from './pool.ts';
import { readFrontend } from './read-frontend.ts';
import { type Rule, type Rules, readRules } from './rules.ts';
import { linesOf, modeOf, type Section, splitSections } from './sections.ts';
import { readSettings } from './settings.ts';
import { type Line, tokenize } from './tokenize.ts';

export function importHaproxy(files: readonly SourceFile[], surroundings: Surroundings): ImportResult {
  const findings: ImportFinding[] = [];
  const faults: Fault[] = [];
  const lines: Line[] = [];
  const report: Report = (place, kind, text) => {
    findings.push({ place, kind, text });
  };
  for (const file of files) {
    const tokens = tokenize(file, surroundings.env);
    append(faults, tokens.faults);
    append(lines, tokens.lines);
    for (const { name, place } of tokens.unset)
      report(
        place,
        'warning',
        `environment variable ${name} is not set, so it is empty: set it for the import, as HAProxy has it`,
      );
  }
  const split = splitSections(lines);
  append(faults, split.faults);
  append(findings, split.findings);
  const { sections } = split;
  const start: Place = { file: files[0].name, line: 1, column: 1 };
  if (faults.length === 0 && !sections.some(isFront))
    faults.push({ place: start, text: 'has no frontend and no listen section: there is nothing to import' });
  if (faults.length > 0) return { ok: false, faults };

  const reader = new Reader(sections, surroundings, findings);
  for (const section of sections) if (isFront(section)) reader.readFront(section);
  reader.readRest();
  reader.reportLoops();
  const { listeners, entries } = reader;
  const settings = readSettings(sections, report);
  if (entries.length === 0)
    report(start, 'not carried over', 'no rule leads to a backend that can be carried over');
  const imported: Imported = {
    files: files.map(({ name }) => name),
    listeners,
    entries,
    ...settings,
    findings,
  };
  return { ok: true, imported };
}

function isFront({ kind }: Section): boolean {
  return kind === 'frontend' || kind === 'listen';
}

/** Goes through the sections once. */
class Reader {
  readonly listeners: ImportedListener[] = [];
  readonly entries: Entry[] = [];
  readonly #sections: readonly Section[];
  readonly #backends: ReadonlyMap<string, Section>;
  readonly #surroundings: Surroundings;
  readonly #findings: ImportFinding[];
  readonly #pools = new Map<string, ImportedPool[]>();
  /** Backends that some rule leads to. */
  readonly #used = new Set<Section>();
  readonly #reported = new Set<Section>();
  readonly #missing = new Set<string>();
  readonly #taken = new Set<Line>();
  /** Names of frontends by port. */
  readonly #bound = new Map<number, string>();

  constructor(sections: readonly Section[], surroundings: Surroundings, findings: ImportFinding[]) {
    this.#sections = sections;
    this.#surroundings = surroundings;
    this.#findings = findings;
    this.#backends = new Map(
      sections
        .filter(({ kind }) => kind === 'backend' || kind === 'listen')
        .map(section => [section.name, section] as const),
    );
  }

  readFront(section: Section): void {
    const { rules, context } = this.#rulesOf(section);
    frontendOddities(section, rules, this.#report);
    const binds = readBinds(section, this.#report);
    for (const { address } of binds) this.#bound.set(address.port, section.name);
    const open = binds.find(bind => bind.opensTls);
    const isStats = linesOf(section, 'stats').length > 0 && rules.routes.length === 0 && !hasServers(section);
    const isProbe =
      linesOf(section, 'monitor-uri').length > 0 && rules.routes.length === 0 && !hasServers(section);
    if (isStats || isProbe) return;
    if (open !== undefined) {
      const text = `'${section.name}' opens TLS (bind ssl): Causeway passes TLS on as it is, so the certificates belong to the backends`;
      this.#report(open.place, 'not carried over', text);
      for (const line of section.lines) this.#taken.add(line);
      return;
    }
    const ids = tlvsOf(rules);
    const expected = expectsProxyFrom(section, context, this.#report);
    const ports = binds.map(bind => {
      const rival = rivalOf(bind, this.listeners);
      if (rival !== undefined) {
        const text = `'${bind.on}' shares its port with '${rival.on}' of ${rival.name}: both are one listener here`;
        if (rival.name !== section.name) this.#report(bind.place, 'warning', text);
        return { index: this.listeners.indexOf(rival), port: bind.address.port };
      }
      const from = bind.acceptsProxy ? EVERYONE : expected;
      const trusted = from.length === 0 ? {} : ids.length > 0 ? { agents: from } : { balancers: from };
      const idTlv = ids.length > 0 && ids.join() !== '32' ? { idTlv: ids } : {};
      const { on, place, address } = bind;
      this.listeners.push({ on, port: address.port, name: section.name, place, ...trusted, ...idTlv });
      return { index: this.listeners.length - 1, port: address.port };
    });
    const distinct = ports.filter(({ index }, i) => ports.findIndex(other => other.index === index) === i);
    append(
      this.entries,
      readFrontend({
        rules,
        name: section.name,
        mode: modeOf(section),
        listeners: distinct,
        poolOf: (name, port, rule) => this.#poolOf(name, port, rule),
        backends: this.#backends,
        report: this.#report,
        reportHosts: (place, kind, text, differsFor) => {
          this.#findings.push({ place, kind, text, differsFor });
        },
      }),
    );
  }

  /** A server that is a frontend of the same HAProxy, usually one that opens TLS. */
  reportLoops(): void {
    for (const pool of new Set(this.entries.map(entry => entry.pool))) {
      for (const backend of pool.backends) {
        const [, port] = /^(?:127\.[\d.]+|localhost|\[::1\]):(\d+)$/.exec(backend) ?? [];
        const name = port === undefined ? undefined : this.#bound.get(Number(port));
        if (name === undefined) continue;
        const text = `${backend} of '${pool.name}' is '${name}' of this HAProxy: keep it running for these hosts, or name the servers behind it`;
        this.#report(pool.place, 'warning', text);
      }
    }
  }

  /** Backends that nothing leads to, other sections, and what nobody has read. */
  readRest(): void {
    const left: ReturnType<typeof leftOut> = [];
    for (const section of this.#sections) {
      const { kind, name, place } = section;
      if (kind === 'backend' && !this.#used.has(section)) {
        this.#report(
          place,
          'not carried over',
          `backend '${name}': no rule that was carried over leads to it`,
        );
      } else if (kind === 'global' || kind === 'defaults' || isFront(section) || kind === 'backend') {
        append(left, leftOut(section, this.#taken));
      } else this.#report(place, 'not carried over', `section '${`${kind} ${name}`.trim()}'`);
      sectionOddities(section, this.#report);
    }
    append(this.#findings, leftOutFindings(left));
  }

  readonly #report: Report = (place, kind, text) => {
    this.#findings.push({ place, kind, text });
  };

  #rulesOf(section: Section): { rules: Rules; context: AclContext } {
    const base = {
      surroundings: this.#surroundings,
      unknown: (place: Place, text: string) => this.#report(place, 'warning', text),
    };
    const own = readRules(section, base);
    for (const line of own.taken) this.#taken.add(line);
    const isOwnBackend = section.kind === 'listen' && hasServers(section);
    const target = { before: section.name, after: '' };
    const itself: Rule = {
      place: section.place,
      text: `listen ${section.name}`,
      action: 'default',
      target,
      condition: { terms: [[]], isUnless: false },
    };
    const hasDefault = own.routes.some(({ action }) => action === 'default');
    const rules = isOwnBackend && !hasDefault ? { ...own, routes: [...own.routes, itself] } : own;
    return { rules, context: { ...base, variables: new Map(), acls: new Map() } };
  }

  #poolOf(name: string, port: number, rule: Rule): ImportedPool | 'refuses' | undefined {
    const section = this.#backends.get(name);
    if (section === undefined) {
      if (!this.#missing.has(name))
        this.#report(
          rule.place,
          'not carried over',
          `there is no backend '${name}': HAProxy would refuse it`,
        );
      this.#missing.add(name);
      return undefined;
    }
    this.#used.add(section);
    const isFirst = !this.#reported.has(section);
    this.#reported.add(section);
    const report: Report = isFirst ? this.#report : () => {};
    const { rules } = this.#rulesOf({ ...section, lines: section.kind === 'listen' ? [] : section.lines });
    const refuses = rules.gates.flat().find(({ action }) => action === 'reject');
    if (refuses !== undefined && refuses.condition.terms.some(term => term.length === 0)) return 'refuses';
    const gate = rules.gates.flat().find(({ action }) => action !== 'accept');
    if (gate !== undefined)
      report(gate.place, 'not carried over', `'${gate.text}' of a backend: put it into allow of the route`);
    const pool = readPool(section, port, report);
    if (pool === undefined) {
      report(
        section.place,
        'not carried over',
        `backend '${name}': it has no server that can be carried over`,
      );
      return undefined;
    }
    if (isFirst) poolOddities(section, report);
    const known = this.#pools.get(name) ?? [];
    this.#pools.set(name, known);
    const same = known.find(other => other.backends.join() === pool.backends.join());
    if (same === undefined) known.push(pool);
    return same ?? pool;
  }
}

/** The TLVs that rules look for an id in. */
function tlvsOf(rules: Rules): number[] {
  const all = [...rules.gates.flat(), ...rules.routes].flatMap(({ condition, target }) => [
    ...condition.terms.flatMap(term => term.flatMap(({ atoms }) => atoms.map(atom => atom.subject))),
    ...(target?.subject === undefined ? [] : [target.subject]),
  ]);
  return [...new Set(all.flatMap(subject => (subject.kind === 'id' ? [subject.tlv] : [])))];
}
