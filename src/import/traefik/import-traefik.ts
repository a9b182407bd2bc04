// Traefik's routers, of the file provider and of IngressRouteTCP objects → what causeway.yaml can say of them.

import { readBackend, readCidr, readListenAddress } from '../../config/address.ts';
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
import { listAt, readDocuments, recordAt, textAt, type YamlDocument } from './documents.ts';
import { type Matcher, parseRule } from './parse-rule.ts';
import { fileRouters, objectRouters, type Router } from './read-routers.ts';

/** The names that Traefik's own chart and documents use. */
const USUAL_PORTS: Readonly<Record<string, number>> = { web: 80, websecure: 443, http: 80, https: 443 };
const EVERYONE = ['0.0.0.0/0', '::/0'];

/** Routers that lead to the same servers share a pool. */
type Pools = Map<string, ImportedPool>;

export function importTraefik(files: readonly SourceFile[], _surroundings: Surroundings): ImportResult {
  const findings: ImportFinding[] = [];
  const add = (finding: ImportFinding) => {
    findings.push(finding);
  };
  const faults: Fault[] = [];
  const documents: YamlDocument[] = [];
  for (const file of files) {
    const read = readDocuments(file);
    append(faults, read.faults);
    append(documents, read.documents);
  }
  const routers = faults.length > 0 ? [] : routersOf(documents, add);
  const start: Place = { file: files[0].name, line: 1, column: 1 };
  if (faults.length === 0 && routers.length === 0)
    faults.push({
      place: start,
      text: 'has no routers (tcp.routers, http.routers) and no IngressRouteTCP: there is nothing to import',
    });
  if (faults.length > 0) return { ok: false, faults };
  const listeners: ImportedListener[] = [];
  const entries: Entry[] = [];
  const pools: Pools = new Map();
  for (const [name, protocol] of entryPointsOf(routers)) {
    const here = routers.filter(router => router.protocol === protocol && isOn(router, name));
    const listener = listenerOf(name, protocol, documents, here, add);
    let index = listeners.findIndex(other => other.on === listener.on);
    if (index < 0) index = listeners.push(listener) - 1;
    append(entries, firstMatch(rulesOf(here, pools, add), protocol, index, add));
  }
  return {
    ok: true,
    imported: {
      files: files.map(({ name }) => name),
      listeners,
      entries,
      timeouts: {},
      findings: distinct(findings),
    },
  };
}

function routersOf(documents: readonly YamlDocument[], add: (finding: ImportFinding) => void): Router[] {
  const middlewares: Record<string, unknown> = {};
  const objects = documents.flatMap(document => {
    const items = listAt(document.value, 'items');
    const paths = textAt(document.value, 'kind')?.endsWith('List') ? items.map((_, i) => ['items', i]) : [[]];
    return paths.map(path => ({
      document,
      path,
      object: path.length === 0 ? document.value : items[path[1] as number],
    }));
  });
  for (const { object } of objects) {
    if (textAt(object, 'kind') !== 'MiddlewareTCP') continue;
    const metadata = recordAt(object, 'metadata');
    middlewares[`${textAt(metadata, 'namespace') ?? 'default'}/${textAt(metadata, 'name') ?? ''}`] = recordAt(
      object,
      'spec',
    );
  }
  return objects.flatMap(({ document, path, object }) => {
    const kind = textAt(object, 'kind');
    if (kind === undefined) return fileRouters(document, add);
    if (kind === 'IngressRouteTCP') return objectRouters(document, path, middlewares, add);
    if (kind !== 'MiddlewareTCP')
      add({ place: document.placeOf(path), kind: 'not carried over', text: `object of kind ${kind}` });
    return [];
  });
}

/** Each entry point with each protocol; a router without any is on all, here one. */
function entryPointsOf(routers: readonly Router[]): (readonly [string, 'tls' | 'http'])[] {
  const found = new Map<string, readonly [string, 'tls' | 'http']>();
  for (const router of routers) {
    const names =
      router.entryPoints.length > 0 ? router.entryPoints : [router.protocol === 'http' ? 'web' : 'websecure'];
    for (const name of names) found.set(`${name} ${router.protocol}`, [name, router.protocol]);
  }
  return [...found.values()];
}

function isOn({ entryPoints, protocol }: Router, name: string): boolean {
  return entryPoints.length === 0
    ? name === (protocol === 'http' ? 'web' : 'websecure')
    : entryPoints.includes(name);
}

function listenerOf(
  name: string,
  protocol: 'tls' | 'http',
  documents: readonly YamlDocument[],
  routers: readonly Router[],
  add: (finding: ImportFinding) => void,
): ImportedListener {
  for (const { value, placeOf } of documents) {
    const entryPoint = recordAt(value, 'entryPoints', name);
    const address = textAt(entryPoint, 'address')?.replace(/\/tcp$/, '');
    const read = readListenAddress(address);
    if (address === undefined || 'fault' in read) continue;
    const place = placeOf(['entryPoints', name]);
    const proxy = recordAt(entryPoint, 'proxyProtocol');
    const balancers = proxy.insecure === true ? EVERYONE : listAt(proxy, 'trustedIPs').map(String);
    if (proxy.insecure === true)
      add({
        place,
        kind: 'warning',
        text: 'proxyProtocol.insecure believes a PROXY header from everyone: narrow balancers of this listener to those who send it',
      });
    return { on: address, port: read.value.port, name, place, ...(balancers.length > 0 && { balancers }) };
  }
  const number = /\d{2,5}/.exec(name)?.[0];
  const port =
    USUAL_PORTS[name] ?? (number === undefined ? (protocol === 'http' ? 80 : 443) : Number(number));
  const { place } = routers[0];
  add({
    place,
    kind: 'warning',
    text: `the address of entry point '${name}' is not in these files: :${port} is assumed`,
  });
  return { on: `:${port}`, port, name, place };
}

/** In Traefik's order: by priority, which is the length of the rule unless it is set. */
function rulesOf(
  routers: readonly Router[],
  pools: Pools,
  add: (finding: ImportFinding) => void,
): HostRule[] {
  const rules = routers.flatMap(router => {
    const { name, place, rule, service } = router;
    const leftOut = (text: string) =>
      add({ place, kind: 'not carried over', text: `router '${name}': ${text}` });
    if (router.opensTls) {
      leftOut('it opens TLS (no tls.passthrough): Causeway passes TLS on as it is');
      return [];
    }
    const alternatives = parseRule(rule);
    if (alternatives === undefined) {
      leftOut(`its rule cannot be read: ${rule}`);
      return [];
    }
    const pool = poolOf(router, pools, add);
    if (pool === undefined) {
      leftOut(`service '${service}' has no server that can be carried over`);
      return [];
    }
    return alternatives.flatMap(matchers => {
      const read = readMatchers(matchers, router.allow);
      if (typeof read === 'string') {
        leftOut(read);
        return [];
      }
      const { sets, allow } = read;
      const isAll = sets.length === 0;
      const base = { place, text: rule, pool, ...(allow !== undefined && { allow }) };
      const priority = router.priority ?? (isAll ? -1 : rule.length);
      return isAll ? [{ ...base, priority }] : sets.map(set => ({ ...base, set, priority }));
    });
  });
  return rules.toSorted((a, b) => b.priority - a.priority);
}

/** Hosts and clients of one alternative; a string says what cannot be expressed. */
function readMatchers(
  matchers: readonly Matcher[],
  given: readonly string[] | undefined,
): { sets: readonly HostSet[]; allow: readonly string[] | undefined } | string {
  let sets: readonly HostSet[] | undefined;
  let allow = given;
  for (const { name, args, isNegated } of matchers) {
    if (isNegated) return `!${name} cannot be expressed`;
    if (name === 'ClientIP') {
      if (allow !== undefined || args.some(arg => 'fault' in readCidr(arg)))
        return `ClientIP(${args.join(', ')})`;
      allow = args;
    } else if (/^Host(?:SNI|Header)?$/.test(name)) {
      if (sets !== undefined) return 'two conditions on the host';
      sets = args.includes('*') ? [] : args.map(hostOf);
    } else if (/^Host(?:SNI)?Regexp$/.test(name)) {
      if (sets !== undefined) return 'two conditions on the host';
      sets = args.map(arg => hostSet('reg', arg, true));
    } else return `${name}(${args.join(', ')}) cannot be expressed`;
  }
  return sets === undefined ? 'it has no condition on the host' : { sets, allow };
}

/** From 3.7 on `*.x.y` is exactly one label in front, as in causeway.yaml. */
function hostOf(text: string): HostSet {
  const suffix = /^\*(\.[^*]+)$/.exec(text.toLowerCase())?.[1];
  if (suffix === undefined) return hostSet('str', text, true);
  const has = (host: string) => host.endsWith(suffix) && !host.slice(0, -suffix.length).includes('.');
  return { has, hosts: hostSet('end', suffix, true).hosts, oddities: [] };
}

function poolOf(
  { service, servers, proxyProtocol, redirect, place }: Router,
  pools: Pools,
  add: (finding: ImportFinding) => void,
): ImportedPool | undefined {
  if (redirect) return { name: 'redirect', backends: [], redirect: true, place };
  const backends = new Set<string>();
  for (const { address, place } of servers) {
    const read = readBackend(address);
    if ('fault' in read)
      add({ place, kind: 'not carried over', text: `'${address}': it is not a TCP address with a port` });
    else backends.add(read.value.text);
  }
  if (backends.size === 0) return undefined;
  const key = `${service} ${[...backends].join()} ${proxyProtocol}`;
  const pool = pools.get(key) ?? {
    name: service,
    backends: [...backends],
    balance: 'round-robin' as const,
    place: servers[0]?.place ?? place,
    ...(proxyProtocol !== undefined && { proxyProtocol }),
  };
  pools.set(key, pool);
  return pool;
}

/** A router on several entry points is read for each. */
function distinct(findings: readonly ImportFinding[]): ImportFinding[] {
  const seen = new Set<string>();
  return findings.filter(({ kind, place, text }) => {
    const key = `${kind} ${place.file}:${place.line}:${place.column} ${text}`;
    const isNew = !seen.has(key);
    seen.add(key);
    return isNew;
  });
}
