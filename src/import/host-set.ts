// A set of hosts as the original decides, and the hosts of causeway.yaml that come nearest to it. Where the two differ,
// it says how.

import { isHostname, isWildcard, wildcardOf } from '../cluster/hostname.ts';
import { type HostSequence, parseHostRegex, sequenceHas } from './host-regex.ts';

export const hostMethods = ['str', 'beg', 'end', 'sub', 'reg', 'dom'] as const;
export type HostMethod = (typeof hostMethods)[number];

export interface HostSet {
  /** As the original decides. Expects lower case. */
  has(host: string): boolean;
  /** As causeway.yaml says it; empty if it cannot. */
  readonly hosts: readonly string[];
  /** The only name that it has. */
  readonly exact?: string;
  /** A regular expression beyond what we read: it may have any host. */
  readonly isUnreadable?: boolean;
  /** Completes `'…' `, for a warning. */
  readonly oddities: readonly string[];
}

/** `text` is a value of an ACL or the key of a map. */
export function hostSet(method: HostMethod, text: string, ignoreCase: boolean): HostSet {
  if (method === 'reg') return regexSet(text, ignoreCase);
  const lower = text.toLowerCase();
  const sees = ignoreCase ? lower : text;
  const caseOddities =
    sees !== lower
      ? [`has capitals and no -i: clients send names in lower case, so it never matches; add -i there`]
      : [];
  if (method === 'str')
    return { has: host => host === sees, exact: sees, hosts: legal([lower]), oddities: caseOddities };
  if (method === 'beg') return { has: host => host.startsWith(sees), hosts: [], oddities: caseOddities };
  if (method === 'sub') return { has: host => host.includes(sees), hosts: [], oddities: caseOddities };
  const bare = lower.replace(/^\.+/, '').replace(/\.+$/, '');
  if (method === 'end') {
    const isOpen = !lower.startsWith('.');
    return {
      has: host => host.endsWith(sees),
      hosts: legal(isOpen ? [bare, `*.${bare}`] : [`*.${bare}`]),
      oddities: [
        ...caseOddities,
        ...(isOpen ? [`also matches not${bare}: start it with a dot`] : []),
        DEEPER(bare),
      ],
    };
  }
  return {
    has: host => `.${host}.`.includes(`.${sees.replace(/^\.+|\.+$/g, '')}.`),
    hosts: legal([bare, `*.${bare}`]),
    oddities: [...caseOddities, `also matches ${bare}.evil.example: use -m end .${bare}`, DEEPER(bare)],
  };
}

/** `*.x.y` as exactly one label in front, which is what it means in causeway.yaml. */
export function wildcardSet(text: string): HostSet {
  return { has: host => wildcardOf(host) === text, hosts: isWildcard(text) ? [text] : [], oddities: [] };
}

/** Whether this host of causeway.yaml matches. Expects lower case. */
export function isAmong(hosts: readonly string[], host: string): boolean {
  return hosts.includes(host) || hosts.includes(wildcardOf(host) ?? host);
}

function DEEPER(bare: string): string {
  return `matches any number of labels in front; *.${bare} is exactly one: add the others, such as *.deeper.${bare}, to hosts if they exist`;
}

function legal(hosts: readonly string[]): readonly string[] {
  const all = hosts.every(host => (isHostname(host) || isWildcard(host)) && !/(^|\.)\d+$/.test(host));
  return all ? hosts : [];
}

function regexSet(text: string, ignoreCase: boolean): HostSet {
  const sequences = parseHostRegex(withoutPort(text), ignoreCase);
  if (sequences === undefined) return { has: () => false, hosts: [], oddities: [], isUnreadable: true };
  const shapes = sequences.map(shapeOf);
  const complete = shapes.every(shape => shape !== undefined);
  const hosts = complete ? [...new Set(shapes.flatMap(shape => shape?.hosts ?? []))] : [];
  return {
    has: host => sequences.some(sequence => sequenceHas(sequence, host)),
    hosts: legal(hosts),
    oddities: complete ? [...new Set(shapes.flatMap(shape => shape?.oddities ?? []))] : [],
  };
}

/** A port at the end, which the Host header may have and our hosts do not. */
function withoutPort(regex: string): string {
  return regex.replace(/\((?:\?:)?:(?:\\d|\[0-9\]|\.)[+*]\)\?\$?$/, '$');
}

interface Shape {
  readonly hosts: readonly string[];
  readonly oddities: readonly string[];
}

/** An exact name, or a label and a name; undefined if it is neither. */
function shapeOf({ items, fromStart, toEnd }: HostSequence): Shape | undefined {
  const oddities: string[] = [];
  let rest = [...items];
  let isOpenEnd = !toEnd;
  // `.*` at the end is no anchor.
  while (rest.at(-1)?.any === true && rest.at(-1)?.repeat === '*') {
    rest.pop();
    isOpenEnd = true;
  }
  const label = rest[0];
  const repeats = label !== undefined && label.repeat !== '1' && label.repeat !== '?';
  const hasDot = repeats && rest[1]?.repeat === '1' && (rest[1].literal === '.' || rest[1].any === true);
  const isOneLabel = repeats && !label.accepts('.') && label.accepts('a');
  let isSuffix = false;
  if (hasDot && isOneLabel && fromStart) {
    if (!'abcz0189'.split('').every(char => label.accepts(char)))
      oddities.push('matches only some labels in front; *. is any label');
    if (rest[1].any === true) oddities.push(UNESCAPED);
    rest = rest.slice(2);
    isSuffix = true;
  } else if (hasDot && (label.accepts('.') || !fromStart)) {
    rest = rest.slice(2);
    isSuffix = true;
    oddities.push('deeper');
  } else if (!fromStart && rest[0]?.repeat === '1' && rest[0].literal === '.') {
    rest = rest.slice(1);
    isSuffix = true;
    oddities.push('deeper');
  } else if (!fromStart) oddities.push('is unanchored: without ^ it also matches names with more in front');
  if (rest.length === 0 || rest.some(item => item.repeat !== '1')) return undefined;
  if (rest.some(item => item.any === true)) oddities.push(UNESCAPED);
  const name = rest.map(item => (item.any === true ? '.' : item.literal)).join('');
  if (rest.some(item => item.any !== true && item.literal === undefined)) return undefined;
  if (name !== name.toLowerCase())
    oddities.push('has capitals and no -i: clients send lower case, so it never matches');
  const host = isSuffix ? `*.${name.toLowerCase()}` : name.toLowerCase();
  const example = isSuffix ? `x.${name}` : name;
  if (isOpenEnd)
    oddities.push(
      `is unanchored: without $ at the end it also matches ${example}.evil.example, which ${host} here does not`,
    );
  return {
    hosts: [host],
    oddities: [...new Set(oddities.map(one => (one === 'deeper' ? DEEPER(name.toLowerCase()) : one)))],
  };
}

const UNESCAPED = 'has an unescaped dot, which matches any character: write \\. there';
