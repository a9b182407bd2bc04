// nginx's stream module → what causeway.yaml can say of it: `map $ssl_preread_server_name`, upstreams, servers.

import { readBackend, readListenAddress } from '../../config/address.ts';
import { append } from '../append.ts';
import { firstMatch, type HostRule } from '../first-match.ts';
import { type HostSet, hostSet } from '../host-set.ts';
import type {
  Entry,
  Fault,
  ImportedListener,
  ImportedPool,
  ImportFinding,
  ImportResult,
  Place,
  SourceFile,
  Surroundings,
} from '../imported.ts';
import { type Directive, parseNginx } from './parse-nginx.ts';

/** nginx's default for proxy_timeout is 10 minutes, its default for proxy_connect_timeout one. */
const DEFAULT_IDLE_MS = 600_000;
const EVERYONE = ['0.0.0.0/0', '::/0'];

export function importNginx(files: readonly SourceFile[], surroundings: Surroundings): ImportResult {
  const findings: ImportFinding[] = [];
  const faults: Fault[] = [];
  const directives: Directive[] = [];
  for (const file of files) {
    const parsed = parseNginx(file, surroundings);
    append(faults, parsed.faults);
    append(directives, parsed.directives);
    for (const { path, place } of parsed.missing)
      findings.push({ place, kind: 'not carried over', text: `include ${path}: it cannot be read` });
  }
  // A file that is itself included in stream { } is read as such.
  const isInner = directives.some(({ name }) => name === 'map' || name === 'upstream');
  const streams = isInner ? directives : directives.filter(({ name }) => name === 'stream').flatMap(blockOf);
  const start: Place = { file: files[0].name, line: 1, column: 1 };
  if (faults.length === 0 && !streams.some(({ name }) => name === 'server'))
    faults.push({ place: start, text: 'has no stream { } with a server: there is nothing to import' });
  if (faults.length > 0) return { ok: false, faults };
  for (const { name, place } of isInner ? [] : directives)
    if (name === 'http' || name === 'mail')
      findings.push({ place, kind: 'not carried over', text: `section ${name}: only stream { } is read` });
    else if (name !== 'stream')
      findings.push({ place, kind: 'not carried over', text: `'${name}': a setting of the nginx process` });
  const reader = new Reader(streams, findings);
  for (const directive of streams) reader.read(directive);
  const { listeners, entries, connect, idle } = reader;
  if (entries.length === 0)
    findings.push({
      place: start,
      kind: 'not carried over',
      text: 'no server leads to a backend that can be carried over',
    });
  return {
    ok: true,
    imported: {
      files: files.map(({ name }) => name),
      listeners,
      entries,
      timeouts: {
        ...(connect !== undefined && { connect }),
        ...(idle !== undefined && idle > DEFAULT_IDLE_MS && { idle }),
      },
      findings,
    },
  };
}

class Reader {
  readonly listeners: ImportedListener[] = [];
  readonly entries: Entry[] = [];
  connect: number | undefined;
  idle: number | undefined;
  readonly #maps = new Map<string, Directive>();
  readonly #upstreams = new Map<string, Directive>();
  readonly #pools = new Map<string, ImportedPool | undefined>();
  readonly #findings: ImportFinding[];

  constructor(directives: readonly Directive[], findings: ImportFinding[]) {
    this.#findings = findings;
    for (const directive of directives) {
      if (directive.name === 'map' && directive.args[1] !== undefined)
        this.#maps.set(directive.args[1], directive);
      if (directive.name === 'upstream') this.#upstreams.set(directive.args[0] ?? '', directive);
    }
  }

  read(directive: Directive): void {
    const { name, place, args } = directive;
    if (name === 'server') this.#readServer(directive);
    else if (name === 'proxy_timeout') this.#readTimeout(directive);
    else if (name === 'proxy_connect_timeout') this.connect = toMs(args[0]);
    else if (name === 'map') {
      if (args[0] !== '$ssl_preread_server_name')
        this.#leftOut(place, `map ${args[0] ?? ''}: only maps from $ssl_preread_server_name are read`);
    } else if (name !== 'upstream' && name !== 'ssl_preread') this.#leftOut(place, `'${name}'`);
  }

  #readServer(server: Directive): void {
    const block = blockOf(server);
    const one = (name: string) => block.findLast(directive => directive.name === name);
    const opens = block.find(({ name, args }) => name === 'listen' && args.includes('ssl'));
    if (opens !== undefined) {
      this.#leftOut(opens.place, 'this server opens TLS (listen ssl): Causeway passes TLS on as it is');
      return;
    }
    const pass = one('proxy_pass');
    if (pass?.args[0] === undefined) {
      this.#leftOut(server.place, 'a server without proxy_pass');
      return;
    }
    const proxyProtocol = one('proxy_protocol')?.args[0] === 'on';
    const allow = this.#allowOf(block);
    const rules = this.#rulesOf(pass, proxyProtocol).map(rule => ({
      ...rule,
      ...(allow !== undefined && { allow }),
    }));
    for (const directive of block) {
      if (directive.name === 'listen') this.#listen(directive, block, rules);
      else if (directive.name === 'proxy_timeout') this.#readTimeout(directive);
      else if (directive.name === 'proxy_connect_timeout') this.connect = toMs(directive.args[0]);
      else if (
        !/^(?:proxy_pass|proxy_protocol|ssl_preread|allow|deny|set_real_ip_from|preread_timeout)$/.test(
          directive.name,
        )
      )
        this.#leftOut(directive.place, `'${directive.name}'`);
    }
    if (pass.args[0].startsWith('$') && one('ssl_preread')?.args[0] !== 'on')
      this.#warn(
        server.place,
        'this server has no ssl_preread on: $ssl_preread_server_name is empty there, so only the default applies',
      );
  }

  #listen({ args, place }: Directive, block: readonly Directive[], rules: readonly HostRule[]): void {
    const given = args[0] ?? '';
    const text = /^\d+$/.test(given) ? `:${given}` : given.replace(/^\*:/, ':');
    const on = text.replace(/^\[::\]:/, ':');
    const address = readListenAddress(on);
    if (args.includes('udp') || 'fault' in address) {
      this.#leftOut(place, `listen ${args.join(' ')}: it is not a TCP address with a port`);
      return;
    }
    const { port } = address.value;
    let index = this.listeners.findIndex(other => other.on === on);
    const isNew = index < 0;
    if (isNew) {
      const balancers = args.includes('proxy_protocol') ? this.#trusted(place, block) : undefined;
      index = this.listeners.length;
      this.listeners.push({
        on,
        port,
        name: `listen ${given}`,
        place,
        ...(balancers !== undefined && { balancers }),
      });
      append(
        this.entries,
        firstMatch(rules, 'tls', index, finding => this.#findings.push(finding)),
      );
    }
  }

  #trusted(place: Place, block: readonly Directive[]): readonly string[] {
    const from = block.filter(({ name }) => name === 'set_real_ip_from').map(({ args }) => args[0] ?? '');
    if (from.length > 0) return from;
    this.#warn(
      place,
      'listen proxy_protocol believes a PROXY header from everyone: narrow balancers of this listener to those who send it',
    );
    return EVERYONE;
  }

  #allowOf(block: readonly Directive[]): readonly string[] | undefined {
    const rules = block.filter(({ name }) => name === 'allow' || name === 'deny');
    const allowed = rules.filter(({ name }) => name === 'allow').map(({ args }) => args[0] ?? '');
    const last = rules.at(-1);
    if (last === undefined) return undefined;
    const isList =
      last.name === 'deny' &&
      last.args[0] === 'all' &&
      rules.filter(({ name }) => name === 'deny').length === 1;
    if (isList && !allowed.includes('all')) return allowed;
    this.#leftOut(
      rules[0].place,
      'allow and deny: only lists of clients to admit, with deny all at the end, can be expressed',
    );
    return undefined;
  }

  /** In nginx's order: names, then the longest wildcard, then regular expressions as they stand, then the default. */
  #rulesOf(pass: Directive, proxyProtocol: boolean): HostRule[] {
    const target = pass.args[0] ?? '';
    if (!target.startsWith('$')) {
      const pool = this.#poolOf(target, pass.place, proxyProtocol);
      return [{ place: pass.place, text: `proxy_pass ${target}`, ...(pool !== undefined && { pool }) }];
    }
    const map = this.#maps.get(target);
    if (map?.args[0] !== '$ssl_preread_server_name') {
      this.#leftOut(
        pass.place,
        `proxy_pass ${target}: it does not come from a map of $ssl_preread_server_name`,
      );
      return [];
    }
    const lines = blockOf(map);
    const hasWildcards = lines.some(({ name }) => name === 'hostnames');
    const rules = lines.flatMap(({ name, args, place }): (HostRule & { rank: number })[] => {
      const [value] = args;
      if (value === undefined) return [];
      const pool = value === '' ? undefined : this.#poolOf(value, place, proxyProtocol);
      const isDefault = name === 'default';
      const { set, rank } = isDefault ? { set: undefined, rank: 3 } : keySet(name, hasWildcards);
      return [
        { place, text: name, rank, ...(set !== undefined && { set }), ...(pool !== undefined && { pool }) },
      ];
    });
    return rules.toSorted((a, b) => a.rank - b.rank || (a.rank === 1 ? b.text.length - a.text.length : 0));
  }

  #poolOf(target: string, place: Place, proxyProtocol: boolean): ImportedPool | undefined {
    const key = `${target} ${proxyProtocol}`;
    if (this.#pools.has(key)) return this.#pools.get(key);
    const upstream = this.#upstreams.get(target);
    const servers = upstream === undefined ? [{ text: target, place }] : this.#serversOf(upstream);
    const backends = new Set<string>();
    for (const { text, place } of servers) {
      const read = readBackend(text);
      if ('fault' in read) this.#leftOut(place, `'${text}': it is not a TCP address with a port`);
      else backends.add(read.value.text);
    }
    const pool: ImportedPool | undefined =
      backends.size === 0
        ? undefined
        : {
            name: target,
            backends: [...backends],
            balance: 'round-robin',
            place: upstream?.place ?? place,
            ...(upstream !== undefined && this.#balanceOf(upstream)),
            ...(proxyProtocol && { proxyProtocol: 'v1' as const }),
          };
    this.#pools.set(key, pool);
    return pool;
  }

  #serversOf(upstream: Directive): { text: string; place: Place }[] {
    return blockOf(upstream).flatMap(({ name, args, place }) => {
      if (name !== 'server') return [];
      const [text = '', ...options] = args;
      const left = options.find(option => option === 'down' || option === 'backup');
      if (left !== undefined) {
        this.#leftOut(
          place,
          `server ${text} is ${left === 'down' ? 'down' : 'a backup: add it to backends if it may serve at any time'}`,
        );
        return [];
      }
      for (const option of options)
        if (/^(?:weight|max_conns|slow_start)=/.test(option))
          this.#leftOut(place, `option '${option}' of servers`);
      return [{ text, place }];
    });
  }

  #balanceOf(upstream: Directive): Pick<ImportedPool, 'balance' | 'balancePlace'> {
    for (const { name, args, place } of blockOf(upstream)) {
      const balancePlace = place;
      if (name === 'least_conn' || name === 'least_time')
        return { balance: 'least-connections', balancePlace };
      if (name === 'random') return { balance: 'random', balancePlace };
      if (name === 'hash' && /^\$(?:binary_)?remote_addr$/.test(args[0] ?? ''))
        return { balance: 'source', balancePlace };
      if (name === 'hash' && args[0] === '$ssl_preread_server_name') return { balance: 'host', balancePlace };
      if (name === 'hash') this.#leftOut(place, `hash ${args.join(' ')}`);
      else if (name !== 'server' && name !== 'zone') this.#leftOut(place, `'${name}' of an upstream`);
    }
    return {};
  }

  #readTimeout({ args, place }: Directive): void {
    const ms = toMs(args[0]);
    if (ms === undefined) return;
    this.idle = Math.max(this.idle ?? 0, ms);
    if (ms < DEFAULT_IDLE_MS)
      this.#warn(
        place,
        `proxy_timeout ${args[0]} cuts watches and 'logs -f', which are silent for longer: it is not carried over, and timeouts.idle is off`,
      );
  }

  #warn(place: Place, text: string): void {
    this.#findings.push({ place, kind: 'warning', text });
  }

  #leftOut(place: Place, text: string): void {
    this.#findings.push({ place, kind: 'not carried over', text });
  }
}

function blockOf({ block }: Directive): readonly Directive[] {
  return block ?? [];
}

/** The hosts of a key, and its place in nginx's order. */
function keySet(key: string, hasWildcards: boolean): { set: HostSet; rank: number } {
  if (key.startsWith('~'))
    return { set: hostSet('reg', key.replace(/^~\*?/, ''), key.startsWith('~*')), rank: 2 };
  const name = key.replace(/^\\/, '');
  if (!hasWildcards || !/^\*?\.|\.\*$/.test(name)) return { set: hostSet('str', name, true), rank: 0 };
  if (name.endsWith('.*')) return { set: hostSet('beg', name.slice(0, -1), true), rank: 1 };
  const below = hostSet('end', name.replace(/^\*/, ''), true);
  if (name.startsWith('*')) return { set: below, rank: 1 };
  // .x.y is x.y and everything below it.
  const bare = name.slice(1).toLowerCase();
  const set = {
    ...below,
    has: (host: string) => host === bare || below.has(host),
    hosts: [bare, ...below.hosts],
  };
  return { set, rank: 1 };
}

function toMs(text: string | undefined): number | undefined {
  const match = /^(\d{1,9})(ms|s|m|h|d)?$/.exec(text ?? '');
  if (match === null) return undefined;
  const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  const ms = Number(match[1]) * units[match[2] ?? 's'];
  return ms === 0 ? undefined : Math.min(ms, 596 * 3_600_000);
}
