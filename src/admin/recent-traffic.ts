// Traffic of the last five minutes: the counters only grow, so they are read every 30 s, and an answer is the difference
// between now and the reading of five minutes ago. A reading is kept only where something has changed since the last one,
// so that idle routes cost next to nothing.

import { setImmediate } from 'node:timers/promises';
import { type CloseReason, closeReasons } from '../gateway/close-reason.ts';
import type { GatewayPort } from '../gateway/control/gateway-port.ts';
import type { Figures } from '../gateway/control/route-counts.ts';
import { ACTIVE_AT, BYTES_IN_AT, BYTES_OUT_AT, REASONS_AT } from '../gateway/shared/shared-memory.ts';

type Reasons = Readonly<Partial<Record<CloseReason, number>>>;

/** Counted in the last five minutes, or since the start where that is shorter. */
export interface Recent {
  /** Connections that were opened, whether they are still open or not. */
  readonly opened: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Connections that ended, by reason; only reasons that occurred. */
  readonly reasons: Reasons;
}

/** Counters at one moment. */
export interface Counted extends Figures {
  /** Open at that moment. */
  readonly open: number;
}

interface Reading extends Counted {
  /** When it was first found so. */
  readonly at: number;
}

const RECENT_MS = 300_000;
/** So the window is up to this much longer. */
const EVERY_MS = 30_000;
/** Routes read in one turn of the event loop: about a millisecond. A table of 10,000 clusters takes half a second in all. */
const ROUTES_PER_TURN = 64;

const nothing: Counted = { open: 0, bytesIn: 0, bytesOut: 0, reasons: {} };

export interface RecentTrafficView {
  readonly gateway: Pick<GatewayPort, 'routes' | 'traffic' | 'connections'>;
  /** False until there is a gateway to read. */
  readonly started: boolean;
}

export class RecentTraffic implements Disposable {
  readonly #view: RecentTrafficView;
  /** A steady clock in ms. */
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  readonly #total = new Readings();
  readonly #routes = new Map<string, Readings>();
  #reading: Promise<void> | undefined;

  constructor(view: RecentTrafficView, now: () => number = () => performance.now()) {
    this.#view = view;
    this.#now = now;
  }

  /** Reads from now on, until it is disposed of. */
  start(onFault: (error: unknown) => void): void {
    this.#timer = setInterval(() => void this.read().catch(onFault), EVERY_MS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Takes a reading of everything. One at a time: a call during another waits for that one. */
  read(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Of the whole gateway. */
  total(): Recent {
    return this.#total.since(this.#now() - RECENT_MS, totalOf(this.#view));
  }

  /** Of one route; of what has none where both names are empty. */
  ofRoute(cluster: string, route: string, current: Counted): Recent {
    const readings = this.#routes.get(keyOf(cluster, route));
    return readings === undefined
      ? difference(nothing, current)
      : readings.since(this.#now() - RECENT_MS, current);
  }

  async #read(): Promise<void> {
    if (!this.#view.started) return;
    this.#total.add(this.#now(), totalOf(this.#view));
    const seen = new Set<string>();
    for (const { route, get } of this.#view.gateway.routes()) {
      const key = keyOf(route?.cluster ?? '', route?.route ?? '');
      seen.add(key);
      const readings = this.#routes.get(key) ?? new Readings();
      this.#routes.set(key, readings);
      readings.add(this.#now(), countedOf(get));
      if (seen.size % ROUTES_PER_TURN === 0) await setImmediate();
    }
    for (const key of this.#routes.keys()) if (!seen.has(key)) this.#routes.delete(key);
  }
}

/** Readings of one set of counters, oldest first: those of the window, and the last one before it. */
class Readings {
  #kept: Reading[] = [];

  add(at: number, current: Counted): void {
    const last = this.#kept.at(-1);
    if (last !== undefined && isEqual(last, current)) return;
    // Counters never fall: these are another route's of the same name.
    if (last !== undefined && fell(last, current)) this.#kept = [];
    const oldest = this.#kept.findLastIndex(reading => reading.at <= at - RECENT_MS);
    this.#kept = [...this.#kept.slice(Math.max(0, oldest)), { at, ...current }];
  }

  /** What was added since that moment. Without a reading from before it, the counters began within the window, at zero. */
  since(moment: number, current: Counted): Recent {
    const before = this.#kept.findLast(({ at }) => at <= moment);
    return difference(before === undefined || fell(before, current) ? nothing : before, current);
  }
}

export function countedOf(get: (offset: number) => number): Counted {
  const reasons: Partial<Record<CloseReason, number>> = {};
  for (const [index, reason] of closeReasons.entries()) {
    const count = get(REASONS_AT + index);
    if (count > 0) reasons[reason] = count;
  }
  return { open: get(ACTIVE_AT), bytesIn: get(BYTES_IN_AT), bytesOut: get(BYTES_OUT_AT), reasons };
}

function totalOf({ gateway }: RecentTrafficView): Counted {
  return { ...gateway.traffic(), open: gateway.connections };
}

function difference(before: Counted, after: Counted): Recent {
  const reasons: Partial<Record<CloseReason, number>> = {};
  let ended = 0;
  for (const [reason, count] of entriesOf(after.reasons)) {
    const more = count - (before.reasons[reason] ?? 0);
    if (more > 0) reasons[reason] = more;
    ended += more;
  }
  return {
    // Open and ended connections are not read at the same instant: the sum may be off by a few.
    opened: Math.max(0, ended + after.open - before.open),
    bytesIn: after.bytesIn - before.bytesIn,
    bytesOut: after.bytesOut - before.bytesOut,
    reasons,
  };
}

function fell(before: Counted, after: Counted): boolean {
  return (
    after.bytesIn < before.bytesIn ||
    after.bytesOut < before.bytesOut ||
    entriesOf(before.reasons).some(([reason, count]) => (after.reasons[reason] ?? 0) < count)
  );
}

function isEqual(a: Counted, b: Counted): boolean {
  return (
    a.open === b.open &&
    a.bytesIn === b.bytesIn &&
    a.bytesOut === b.bytesOut &&
    closeReasons.every(reason => a.reasons[reason] === b.reasons[reason])
  );
}

function entriesOf(reasons: Reasons): [CloseReason, number][] {
  return Object.entries(reasons) as [CloseReason, number][];
}

/** Neither name has a space in it. */
function keyOf(cluster: string, route: string): string {
  return `${cluster} ${route}`;
}
