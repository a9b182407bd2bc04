// What the control thread and the DNS thread tell each other.

import type { ListenAddress } from '../../config/config.ts';
import type { ServedNames } from '../served-zones.ts';

/** `workerData` of the thread. */
export interface DnsStart {
  readonly on: ListenAddress;
  /** Other processes of this user may listen there too: the one that this one replaces, or that will replace it. */
  readonly isShared: boolean;
  /** Whether the port may be in use by such a process already. */
  readonly isTaken: boolean;
  readonly names: ServedNames;
  /** Float64Array: answers by rcode, then those that were not answered. */
  readonly counts: SharedArrayBuffer;
}

export type ToDns =
  | { readonly kind: 'names'; readonly names: ServedNames }
  /** Closes everything; the thread then ends. */
  | { readonly kind: 'stop' };

export type FromDns =
  | { readonly kind: 'listening'; readonly addresses: readonly string[] }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string }
  /** An address of the machine that it could not open later. */
  | { readonly kind: 'trouble'; readonly address: string; readonly message: string }
  /** Our own code threw. */
  | { readonly kind: 'fault'; readonly message: string };

/** Rcodes are below it. */
export const NOT_ANSWERED = 24;
export const COUNTS = NOT_ANSWERED + 1;
