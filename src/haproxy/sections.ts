// Backend sections as slots: HAProxy cannot add a section while it runs, so each shape of section exists a few times
// more than needed, and a route takes a free one of its shape. Only when none is left is a new process needed. Pure.

import type { Balance, ProxyProtocol } from '../cluster/cluster.ts';
import type { ClusterEntry, RouteEntry } from '../gateway/table/table.ts';

/** The properties of a backend section that cannot change while HAProxy runs. */
export interface Shape {
  readonly mode: 'tcp' | 'http';
  readonly balance: Balance;
  readonly proxyProtocol: ProxyProtocol;
  /** With an allow list or limits. */
  readonly isGuarded: boolean;
  /** Server lines; a power of two. */
  readonly servers: number;
}

/** Fewer server lines are not worth a shape of their own. */
const FEWEST_SERVERS = 4;
/** Free sections of each shape in a new process: as many as this, or a quarter of those in use. */
const SPARE_SECTIONS = 4;
const SPARE_SHARE = 4;

/** What the defaults of a route need: these are there from the start, so that the first clusters need no new process. */
const DEFAULT_SHAPES: readonly Shape[] = [
  { mode: 'tcp', balance: 'source', proxyProtocol: 'none', isGuarded: false, servers: FEWEST_SERVERS },
  { mode: 'tcp', balance: 'round-robin', proxyProtocol: 'none', isGuarded: false, servers: FEWEST_SERVERS },
  { mode: 'http', balance: 'host', proxyProtocol: 'none', isGuarded: false, servers: FEWEST_SERVERS },
  { mode: 'tcp', balance: 'source', proxyProtocol: 'none', isGuarded: true, servers: FEWEST_SERVERS },
];

/** By shape, as text: how many sections there are. */
export type SectionCounts = ReadonlyMap<string, number>;

/** The section of each route slot. */
export type Assignment = ReadonlyMap<number, string>;

export function shapeOf(cluster: ClusterEntry, route: RouteEntry): Shape {
  const { limits } = cluster;
  const isLimited = Object.values(limits).some(limit => limit !== undefined);
  const wanted = route.backends.length + 1;
  return {
    mode: route.kind === 'apps-http' ? 'http' : 'tcp',
    balance: route.balance,
    proxyProtocol: route.proxyProtocol,
    isGuarded: cluster.allow !== undefined || route.allow !== undefined || isLimited,
    servers: Math.max(FEWEST_SERVERS, 2 ** Math.ceil(Math.log2(wanted))),
  };
}

/** Also how its sections are named, with a number behind it. */
export function shapeText({ mode, balance, proxyProtocol, isGuarded, servers }: Shape): string {
  return [mode, balance, proxyProtocol, isGuarded ? 'guarded' : 'open', servers].join('_');
}

export function parseShape(text: string): Shape {
  const [mode, balance, proxyProtocol, guarded, servers] = text.split('_');
  return {
    mode: mode as Shape['mode'],
    balance: balance as Balance,
    proxyProtocol: proxyProtocol as ProxyProtocol,
    isGuarded: guarded === 'guarded',
    servers: Number(servers),
  };
}

export function sectionName(shape: string, index: number): string {
  return `${shape}_${index}`;
}

/**
 * Keeps the section of each route whose shape is still the same, and gives others the first one that nobody has, nor
 * had lately (`leaving`). `needed`: how many sections of each shape that takes.
 */
export function assignSections(
  before: Assignment,
  wanted: ReadonlyMap<number, string>,
  leaving: { has(section: string): boolean } = new Set(),
): { readonly assignment: Assignment; readonly needed: SectionCounts } {
  const assignment = new Map<number, string>();
  // Also those that this change frees: its commands do not all take effect at once.
  const had = new Set(before.values());
  const taken = new Set<string>();
  for (const [slot, shape] of wanted) {
    const old = before.get(slot);
    if (old?.slice(0, old.lastIndexOf('_')) !== shape) continue;
    assignment.set(slot, old);
    taken.add(old);
  }
  const needed = new Map<string, number>();
  for (const name of taken) atLeast(needed, name);
  const next = new Map<string, number>();
  for (const [slot, shape] of wanted) {
    if (assignment.has(slot)) continue;
    let index = next.get(shape) ?? 0;
    const isTaken = (name: string) => taken.has(name) || had.has(name) || leaving.has(name);
    while (isTaken(sectionName(shape, index))) index++;
    next.set(shape, index + 1);
    const name = sectionName(shape, index);
    assignment.set(slot, name);
    atLeast(needed, name);
  }
  return { assignment, needed };
}

function atLeast(counts: Map<string, number>, name: string): void {
  const at = name.lastIndexOf('_');
  const shape = name.slice(0, at);
  counts.set(shape, Math.max(counts.get(shape) ?? 0, Number(name.slice(at + 1)) + 1));
}

export function fits(needed: SectionCounts, there: SectionCounts): boolean {
  return [...needed].every(([shape, count]) => count <= (there.get(shape) ?? 0));
}

/** How many sections a new process gets, for what is needed now. */
export function withSpare(needed: SectionCounts): SectionCounts {
  const counts = new Map(DEFAULT_SHAPES.map(shape => [shapeText(shape), SPARE_SECTIONS]));
  for (const [shape, count] of needed)
    counts.set(shape, count + Math.max(SPARE_SECTIONS, Math.ceil(count / SPARE_SHARE)));
  return counts;
}
