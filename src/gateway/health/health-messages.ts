// What the control thread and the thread of the health checks say to each other.

import type { FaultReport } from '../fault-log.ts';
import type { HealthTarget } from './health-target.ts';

/** Given to the thread when it starts. */
export interface HealthStart {
  readonly totals: SharedArrayBuffer;
}

export type ToHealth =
  | {
      readonly kind: 'targets';
      /** Memory of backend slots that are new to the thread. */
      readonly pages: readonly SharedArrayBuffer[];
      /** New ones, and those that are checked otherwise from now on. */
      readonly put: readonly HealthTarget[];
      readonly removed: readonly number[];
    }
  | {
      readonly kind: 'addresses';
      readonly backends: readonly (readonly [slot: number, addresses: readonly string[]])[];
    };

export type FromHealth =
  | { readonly kind: 'changed'; readonly slot: number; readonly up: boolean; readonly why: string }
  | { readonly kind: 'stretch'; readonly stretch: number }
  /** Our own code threw in a check, which counts neither way. It is about the `slot` of a backend. */
  | { readonly kind: 'fault'; readonly report: FaultReport };
