// Rates from counters that are polled: over the last seconds, so that a figure does not flicker between two polls.
// Counters only grow; one that fell belongs to a restarted gateway or a new route of the same name, and its readings
// start again.

export interface Counters {
  /** When they were read, in ms of a monotonic clock. */
  readonly at: number;
  /** Ended and open ones. The two are not read at the same instant, so the sum may fall by a few. */
  readonly connections: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly refused: number;
}

export interface Rates {
  readonly connections: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly refused: number;
}

/** Five polls: steady enough to read, short enough to see a burst. */
const WINDOW_MS = 10_000;
/** For charts, which show bursts: two polls. Events may bring further polls within that time. */
export const STEP_MS = 4000;

/** The readings that the next rate is computed from, oldest first. */
export function addReading(readings: readonly Counters[], reading: Counters): readonly Counters[] {
  const last = readings.at(-1);
  if (last !== undefined && (hasFallen(last, reading) || reading.at <= last.at)) return [reading];
  return [...readings.filter(({ at }) => reading.at - at <= WINDOW_MS), reading];
}

/** Per second, over the readings of the last `windowMs`; undefined until there are two. */
export function ratesOver(readings: readonly Counters[], windowMs = WINDOW_MS): Rates | undefined {
  const last = readings.at(-1);
  const first = readings.find(({ at }) => last !== undefined && last.at - at <= windowMs);
  if (first === undefined || last === undefined || last.at <= first.at) return undefined;
  const seconds = (last.at - first.at) / 1000;
  return {
    connections: Math.max(0, last.connections - first.connections) / seconds,
    bytesIn: (last.bytesIn - first.bytesIn) / seconds,
    bytesOut: (last.bytesOut - first.bytesOut) / seconds,
    refused: (last.refused - first.refused) / seconds,
  };
}

function hasFallen(before: Counters, after: Counters): boolean {
  return after.bytesIn < before.bytesIn || after.bytesOut < before.bytesOut || after.refused < before.refused;
}
