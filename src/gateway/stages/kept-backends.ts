// Idle connections to HTTP backends, kept for another request, by backend slot: a slot belongs to one route of one
// cluster, so that clusters never share a connection. Their rows are in the state KEPT.
//
// Most serve whoever asks next. One that has carried a body, or began with a client's PROXY header, serves no other
// client: a backend that misread the end of the body would take the rest for the next request.

/** Idle connections kept for one backend. */
const MAX_IDLE = 64;
/** Backends of which one client may have a connection of its own. */
const MAX_OWN = 8;

export class KeptBackends {
  /** By backend slot, the most recently used one last. */
  readonly #shared = new Map<number, number[]>();
  /** By client and backend slot. */
  readonly #own = new Map<number, Map<number, number>>();

  /** For the next request of `client`, or of anybody if it is -1. False if there are enough. */
  add(slot: number, handle: number, client: number): boolean {
    if (client >= 0) return this.#addOwn(slot, handle, client);
    const idle = this.#shared.get(slot);
    if (idle === undefined) this.#shared.set(slot, [handle]);
    else if (idle.length === MAX_IDLE) return false;
    else idle.push(handle);
    return true;
  }

  #addOwn(slot: number, handle: number, client: number): boolean {
    const own = this.#own.get(client);
    if (own === undefined) this.#own.set(client, new Map([[slot, handle]]));
    else if (own.size === MAX_OWN || own.has(slot)) return false;
    else own.set(slot, handle);
    return true;
  }

  take(slot: number): number | undefined {
    const idle = this.#shared.get(slot);
    const handle = idle?.pop();
    if (idle?.length === 0) this.#shared.delete(slot);
    return handle;
  }

  takeOwn(slot: number, client: number): number | undefined {
    const handle = this.#own.get(client)?.get(slot);
    if (handle !== undefined) this.remove(slot, handle, client);
    return handle;
  }

  remove(slot: number, handle: number, client: number): void {
    if (client >= 0) {
      const own = this.#own.get(client);
      if (own?.delete(slot) === true && own.size === 0) this.#own.delete(client);
      return;
    }
    const idle = this.#shared.get(slot);
    const at = idle?.indexOf(handle) ?? -1;
    if (idle === undefined || at < 0) return;
    idle.splice(at, 1);
    if (idle.length === 0) this.#shared.delete(slot);
  }

  /** One that has been idle for long; undefined if there is none. */
  get oldest(): number | undefined {
    for (const [handle] of this.#shared.values()) return handle;
    for (const own of this.#own.values()) for (const handle of own.values()) return handle;
    return undefined;
  }

  /** Those that a client has to itself. */
  ownOf(client: number): readonly number[] {
    const own = this.#own.get(client);
    return own === undefined ? nothing : [...own.values()];
  }

  /** The backends to which there are any. */
  get slots(): ReadonlySet<number> {
    const slots = new Set(this.#shared.keys());
    for (const own of this.#own.values()) for (const slot of own.keys()) slots.add(slot);
    return slots;
  }

  /** All to that backend. */
  handlesOf(slot: number): readonly number[] {
    const handles = [...(this.#shared.get(slot) ?? nothing)];
    for (const own of this.#own.values()) {
      const handle = own.get(slot);
      if (handle !== undefined) handles.push(handle);
    }
    return handles;
  }
}

const nothing: readonly number[] = [];
