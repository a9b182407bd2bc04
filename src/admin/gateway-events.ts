// Refusals, health changes and table changes as events. There may be a hundred thousand refusals a second, which nobody
// can read: the number sent per second is limited, and the next event says how many were left out.

import { closeReasons, served } from '../gateway/close-reason.ts';
import { connectionFields } from '../gateway/control/connection-fields.ts';
import type { NamedRecord } from '../gateway/control/gateway-port.ts';
import type { EventStreams } from './event-streams.ts';

const REFUSALS_PER_SECOND = 200;

export interface HealthChange {
  readonly cluster: string;
  readonly route: string;
  readonly backend: string;
  /** null: no longer checked. */
  readonly up: boolean | null;
  /** The result of the last check, in words. */
  readonly why: string;
}

export interface TableChange {
  /** Of the table that is served, also after a file was refused. */
  readonly generation: number;
  readonly clusters: number;
  readonly routes: number;
  readonly hosts: number;
  readonly ok: boolean;
  readonly error: string | null;
}

export class GatewayEvents {
  readonly #streams: Pick<EventStreams, 'size' | 'send'>;
  /** ms since 1970. */
  readonly #now: () => number;
  #second = 0;
  #sent = 0;
  #skipped = 0;

  constructor(streams: Pick<EventStreams, 'size' | 'send'>, now: () => number = Date.now) {
    this.#streams = streams;
    this.#now = now;
  }

  /** A connection ended: an event if it was refused. */
  ended(record: NamedRecord): void {
    if (this.#streams.size === 0 || served.has(closeReasons[record.reason])) return;
    const now = this.#now();
    const second = Math.floor(now / 1000);
    if (second !== this.#second) this.#sent = 0;
    this.#second = second;
    if (this.#sent >= REFUSALS_PER_SECOND) {
      this.#skipped++;
      return;
    }
    this.#sent++;
    this.#streams.send('refusal', { at: iso(now), ...connectionFields(record), skipped: this.#skipped });
    this.#skipped = 0;
  }

  health(change: HealthChange): void {
    this.#streams.send('health', { at: iso(this.#now()), ...change });
  }

  table(change: TableChange): void {
    this.#streams.send('table', { at: iso(this.#now()), ...change });
  }
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
