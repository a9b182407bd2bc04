// Reads fields of objects that others write. Nothing is trusted to be there or to have its type, and a key such as
// `__proto__` is a key like any other.

import { isRecord } from '../config/is-record.ts';

const MAX_PORT = 65_535;
/** RFC 1123's subdomain, as most objects are called. */
const OBJECT_NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

/** `at(spec, 'networkProfile.port')`; undefined where a parent is missing or is no map. */
export function at(value: unknown, path: string): unknown {
  let found = value;
  for (const key of path.split('.')) {
    if (!isRecord(found) || !Object.hasOwn(found, key)) return undefined;
    found = found[key];
  }
  return found;
}

/** Go leaves out an empty string as if it were not set, so '' counts as absent. */
export function textAt(value: unknown, path: string): string | undefined {
  const found = at(value, path);
  return typeof found === 'string' && found !== '' ? found : undefined;
}

/** The name of another object; whatever cannot be one counts as absent. */
export function objectNameAt(value: unknown, path: string): string | undefined {
  const found = textAt(value, path);
  return found !== undefined && OBJECT_NAME.test(found) ? found : undefined;
}

/** Go leaves out an empty string as if it were not set. */
export function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== '';
}

/** The strings of a list; no list counts as an empty one. */
export function textsAt(value: unknown, path: string): readonly string[] {
  const found = at(value, path);
  return Array.isArray(found) ? found.filter(item => typeof item === 'string') : [];
}

export function recordAt(value: unknown, path: string): Readonly<Record<string, unknown>> | undefined {
  const found = at(value, path);
  return isRecord(found) ? found : undefined;
}

export function textMapAt(value: unknown, path: string): Readonly<Record<string, string>> {
  const entries = Object.entries(recordAt(value, path) ?? {});
  return Object.fromEntries(entries.filter(entry => typeof entry[1] === 'string')) as Record<string, string>;
}

export function portAt(value: unknown, path: string): number | undefined {
  const found = at(value, path);
  return Number.isInteger(found) && (found as number) >= 1 && (found as number) <= MAX_PORT
    ? (found as number)
    : undefined;
}

/** Which keys to keep; `true` keeps all below. */
export interface Shape {
  readonly [key: string]: true | Shape;
}

/** The same value without other keys. What is not a map stays, so that its wrong type can still be seen. */
export function pick(value: unknown, shape: true | Shape): unknown {
  if (shape === true || !isRecord(value)) return value;
  const kept = Object.entries(shape).filter(([key]) => Object.hasOwn(value, key));
  return Object.fromEntries(kept.map(([key, inner]) => [key, pick(value[key], inner)]));
}
