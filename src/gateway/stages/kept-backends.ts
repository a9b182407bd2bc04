// Idle connections to HTTP backends, kept for another request, by backend slot: a slot belongs to one route of one
// cluster, so that clusters never share a connection. Their rows are in the state KEPT.
//
// Most are shared by all clients. One that has carried a body, or began with a client's PROXY header, serves only that
// client: a backend that misread the end of the body would take the rest for the next request.

/** Idle connections kept for one backend. */
const MAX_IDLE = 64;
/** Connections kept for one client alone, each to a different backend. */
const MAX_OWN = 8;

export class KeptBackends {
  /** By backend slot, the most recently used one last. */
  readonly #shared = new Map<number, number[]>();
  /** By client and backend slot. */
  readonly #own = new Map<number, Map<number, number>>();

  /** For `client`, or for any client if it is -1. False if enough are kept. */
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

  /** One that has been idle for long, if any. */
  get oldest(): number | undefined {
    for (const [handle] of this.#shared.values()) return handle;
    for (const own of this.#own.values()) for (const handle of own.values()) return handle;
    return undefined;
  }

  /** Those kept for that client alone. */
  ownOf(client: number): readonly number[] {
    const own = this.#own.get(client);
    return own === undefined ? nothing : [...own.values()];
  }

  /** Slots of the backends with kept connections. */
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
