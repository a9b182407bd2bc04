// The two connections of an agent's tunnel at the gateway: the outer, which is handed to the TLS part, and the inner,
// which comes back from there, to the same worker. Between them are unix sockets, which know FIN but no reset: one that
// ends with a reset is told to the other here. Part of end.

import type { CloseReason } from '../close-reason.ts';
import type { HandOff } from '../shared/hand-off.ts';
import type { Verdicts } from '../shared/verdicts.ts';
import { reasonIndex } from './record-end.ts';

type Outer = Pick<HandOff, 'handle' | 'generation'>;

export class TunnelLinks {
  readonly #outerOf = new Map<number, Outer>();
  readonly #innerOf = new Map<number, number>();

  /** `inner` has come back from that one. */
  add({ handle, generation }: Outer, inner: number): void {
    this.#outerOf.set(inner, { handle, generation });
    this.#innerOf.set(handle, inner);
  }

  /**
   * That connection ends with a reset. For an inner one the outer is to end so too, with the same reason, once it has
   * passed on what came before; for an outer one, the answer is the inner that is to end now.
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

  /** That connection has ended, whichever it is. */
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
