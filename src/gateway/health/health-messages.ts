// The messages between the control thread and the health thread.

import type { FaultReport } from '../fault-log.ts';
import type { HealthTarget } from './health-target.ts';

/** Given to the thread when it starts. */
export interface HealthStart {
  readonly totals: SharedArrayBuffer;
}

export type ToHealth =
  | {
      readonly kind: 'targets';
      /** Memory for backend slots that are new to the thread. */
      readonly pages: readonly SharedArrayBuffer[];
      /** New targets, and those whose settings have changed. */
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
  /** Our own code threw in a check, which counts neither way. The report names the backend's `slot`. */
  | { readonly kind: 'fault'; readonly report: FaultReport };
