// Values in JSON documents by their path.

type Container = Record<string, unknown>;

export type Path = readonly string[];

export function isContainer(value: unknown): value is Container {
  return typeof value === 'object' && value !== null;
}

export function valueAt(document: unknown, path: Path): unknown {
  let value = document;
  for (const key of path) {
    if (!isContainer(value)) return undefined;
    value = value[key];
  }
  return value;
}

/** Makes the objects on the way. */
export function setAt(document: Container, path: Path, value: unknown): void {
  let container = document;
  for (const key of path.slice(0, -1)) {
    if (!isContainer(container[key])) container[key] = {};
    container = container[key] as Container;
  }
  container[path[path.length - 1]] = value;
}

/** Takes the objects that it leaves empty along. */
export function removeAt(document: Container, path: Path): void {
  const [key, ...rest] = path;
  const inner = document[key];
  if (rest.length === 0) delete document[key];
  else if (isContainer(inner)) {
    removeAt(inner, rest);
    if (Object.keys(inner).length === 0) delete document[key];
  }
}

export function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isContainer(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .filter(key => value[key] !== undefined)
      .toSorted()
      .map(key => [key, sorted(value[key])]),
  );
}
