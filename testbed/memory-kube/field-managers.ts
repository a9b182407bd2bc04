// Who owns which fields of an object, as server-side apply has it, in a simpler way: a field is a path to a value that
// is no object, and every list is one value (real API servers merge some lists by the keys of their entries).

import type { KubeObject, ManagedFields } from '../../src/kube/kube-object.ts';
import { isContainer, isSame, type Path, removeAt, setAt, valueAt } from './json-value.ts';

/** By `<operation> <manager>`: the paths of fields, as JSON. */
export type Owners = Map<string, Set<string>>;

/** Not owned by anybody: the object's identity and what the server writes. */
const NOBODYS = new Set([
  'apiVersion',
  'kind',
  ...[
    'name',
    'namespace',
    'uid',
    'resourceVersion',
    'generation',
    'creationTimestamp',
    'deletionTimestamp',
    'managedFields',
  ].map(key => `metadata.${key}`),
]);

/** After a write that is no apply: whoever changes a field owns it alone. */
export function ownersAfterUpdate(
  owners: Owners,
  manager: string,
  before: object | undefined,
  after: object,
): Owners {
  const paths = new Set(fieldsOf(after).map(path => JSON.stringify(path)));
  const changed = [...paths].filter(path => !isSame(at(before, path), at(after, path)));
  const result: Owners = new Map();
  for (const [owner, owned] of owners) {
    const left = [...owned].filter(path => paths.has(path) && !changed.includes(path));
    if (left.length > 0) result.set(owner, new Set(left));
  }
  const id = `Update ${manager}`;
  if (changed.length > 0) result.set(id, new Set([...(result.get(id) ?? []), ...changed]));
  return result;
}

export type Applied =
  | { readonly object: object; readonly owners: Owners }
  /** Fields that others own and say otherwise, as `.spec.a by 'kubectl'`. */
  | { readonly conflicts: readonly string[] };

/** `live` is undefined where there is none yet. */
export function applied(
  owners: Owners,
  manager: string,
  live: object | undefined,
  wanted: object,
  force: boolean,
): Applied {
  const id = `Apply ${manager}`;
  const fields = fieldsOf(wanted).map(path => JSON.stringify(path));
  const others = [...owners].filter(([owner]) => owner !== id);
  const isStated = (path: string) =>
    isSame(at(live, path), at(wanted, path)) ||
    (isEmptyObject(at(wanted, path)) && isContainer(at(live, path)));
  const disputed = fields.flatMap(path =>
    isStated(path) ? [] : others.filter(([, owned]) => owned.has(path)).map(([owner]) => ({ path, owner })),
  );
  if (disputed.length > 0 && !force) {
    return {
      conflicts: disputed.map(({ path, owner }) => `.${parsed(path).join('.')} by '${owner.split(' ')[1]}'`),
    };
  }
  const object = structuredClone(live ?? {}) as Record<string, unknown>;
  // What we had applied before and do not want any more goes, unless somebody else wants it.
  for (const path of owners.get(id) ?? []) {
    const isKept = fields.includes(path) || others.some(([, owned]) => owned.has(path));
    const hasMore = isContainer(at(object, path)) && !Array.isArray(at(object, path));
    if (!isKept && !(hasMore && !isEmptyObject(at(object, path)))) removeAt(object, parsed(path));
  }
  for (const path of fields) {
    const value = at(wanted, path);
    // An empty object says that there is one, not that it is empty.
    if (isEmptyObject(value) && isContainer(at(object, path))) continue;
    setAt(object, parsed(path), structuredClone(value));
  }
  const result: Owners = new Map();
  for (const [owner, owned] of others) {
    const left = [...owned].filter(
      path => !disputed.some(each => each.owner === owner && each.path === path),
    );
    if (left.length > 0) result.set(owner, new Set(left));
  }
  result.set(id, new Set(fields));
  return { object, owners: result };
}

export function managedFieldsOf(owners: Owners, apiVersion: string): ManagedFields[] {
  return [...owners].map(([id, paths]) => {
    const [operation, manager] = id.split(' ');
    const fieldsV1: Record<string, unknown> = {};
    for (const path of paths) {
      setAt(
        fieldsV1,
        parsed(path).map(key => `f:${key}`),
        {},
      );
    }
    return { manager, operation, apiVersion, fieldsType: 'FieldsV1', fieldsV1 };
  });
}

function fieldsOf(object: object): Path[] {
  const found: Path[] = [];
  const walk = (value: unknown, path: Path) => {
    if (value === undefined || NOBODYS.has(path.join('.'))) return;
    const entries = isContainer(value) && !Array.isArray(value) ? Object.entries(value) : [];
    if (entries.length === 0) found.push(path);
    for (const [key, inner] of entries) walk(inner, [...path, key]);
  };
  for (const [key, value] of Object.entries(object as KubeObject)) walk(value, [key]);
  return found;
}

function isEmptyObject(value: unknown): boolean {
  return isContainer(value) && !Array.isArray(value) && Object.keys(value).length === 0;
}

function at(object: object | undefined, path: string): unknown {
  return valueAt(object, parsed(path));
}

function parsed(path: string): Path {
  return JSON.parse(path) as Path;
}
