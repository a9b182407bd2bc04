// Idle connections to HTTP backends, kept for another request, by backend slot: a slot belongs to one route of one
// cluster, so that clusters never share a connection. Their rows are in the state KEPT.

/** Idle connections kept for one backend. */
const MAX_IDLE = 64;

export class KeptBackends {
  /** By backend slot, the most recently used one last. */
  readonly #idle = new Map<number, number[]>();

  add(slot: number, handle: number): boolean {
    const idle = this.#idle.get(slot);
    if (idle === undefined) this.#idle.set(slot, [handle]);
    else if (idle.length === MAX_IDLE) return false;
    else idle.push(handle);
    return true;
  }

  take(slot: number): number | undefined {
    const idle = this.#idle.get(slot);
    const handle = idle?.pop();
    if (idle?.length === 0) this.#idle.delete(slot);
    return handle;
  }

  remove(slot: number, handle: number): void {
    const idle = this.#idle.get(slot);
    const at = idle?.indexOf(handle) ?? -1;
    if (idle === undefined || at < 0) return;
    idle.splice(at, 1);
    if (idle.length === 0) this.#idle.delete(slot);
  }

  /** One that has been idle for long; undefined if there is none. */
  get oldest(): number | undefined {
    for (const [handle] of this.#idle.values()) return handle;
    return undefined;
  }

  get slots(): readonly number[] {
    return [...this.#idle.keys()];
  }
}
