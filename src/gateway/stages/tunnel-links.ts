// Links the two connections of an agent's tunnel at the gateway: the outer one, handed to the TLS thread, and the inner
// one, which returns from there to the same worker. The unix sockets between them carry FIN but no reset, so a reset of
// one is passed to the other here. Part of end.

import type { CloseReason } from '../close-reason.ts';
import type { HandOff } from '../shared/hand-off.ts';
import type { Verdicts } from '../shared/verdicts.ts';
import { reasonIndex } from './record-end.ts';

type Outer = Pick<HandOff, 'handle' | 'generation'>;

export class TunnelLinks {
  readonly #outerOf = new Map<number, Outer>();
  readonly #innerOf = new Map<number, number>();

  /** `inner` has returned from that outer connection. */
  add({ handle, generation }: Outer, inner: number): void {
    this.#outerOf.set(inner, { handle, generation });
    this.#innerOf.set(handle, inner);
  }

  /**
   * That connection ends with a reset. An inner connection leaves a verdict, so that the outer one ends the same way,
   * with the same reason, after passing on the bytes before. For an outer connection, returns the inner one to end now.
   */
  reset(verdicts: Verdicts, handle: number, reason: CloseReason): number | undefined {
    const outer = this.#outerOf.get(handle);
    if (outer === undefined) return this.#innerOf.get(handle);
    verdicts.say(outer.handle, outer.generation, {
      slot: 0,
      backendSlot: 0,
      dialMs: verdicts.dialMs(outer.handle),
      reason: reasonIndex[reason],
      isBroken: true,
      isEnding: false,
    });
    return undefined;
  }

  /** That connection, inner or outer, has ended. */
  delete(handle: number): void {
    const outer = this.#outerOf.get(handle);
    if (outer === undefined) {
      const inner = this.#innerOf.get(handle);
      if (inner === undefined) return;
      this.#innerOf.delete(handle);
      this.#outerOf.delete(inner);
    } else {
      this.#outerOf.delete(handle);
      if (this.#innerOf.get(outer.handle) === handle) this.#innerOf.delete(outer.handle);
    }
  }
}
