// The three functions of the Reflect metadata proposal that `@peculiar/x509` needs when it loads (its container
// tsyringe throws without them). Imported for its side effect, before that package. Subclasses inherit the metadata of
// their base class; an existing polyfill is kept.

type Metadata = Map<unknown, unknown>;

const kept = new WeakMap<object, Metadata>();

function defineMetadata(key: unknown, value: unknown, target: object): void {
  const own: Metadata = kept.get(target) ?? new Map();
  kept.set(target, own.set(key, value));
}

function getOwnMetadata(key: unknown, target: object): unknown {
  return kept.get(target)?.get(key);
}

function getMetadata(key: unknown, target: object): unknown {
  for (let at: object | null = target; at !== null; at = Reflect.getPrototypeOf(at)) {
    if (kept.get(at)?.has(key) === true) return getOwnMetadata(key, at);
  }
  return undefined;
}

if (!('getMetadata' in Reflect)) Object.assign(Reflect, { defineMetadata, getOwnMetadata, getMetadata });
