// The last minutes for the charts: one column per figure, as uPlot expects. A gap (the page was hidden, the gateway
// unreachable) is a null, so that no line is drawn across it.

import type { Rates } from './rates.ts';

export interface History {
  /** Seconds since 1970. */
  readonly at: readonly number[];
  readonly open: Column;
  readonly connections: Column;
  readonly bytesIn: Column;
  readonly bytesOut: Column;
  readonly refused: Column;
}

type Column = readonly (number | null)[];
type Figures = Readonly<Record<Exclude<keyof History, 'at'>, number | null>>;

export const HISTORY_SECONDS = 300;
/** After this long without a point, the line breaks. */
const GAP_SECONDS = 7;

export const noHistory: History = {
  at: [],
  open: [],
  connections: [],
  bytesIn: [],
  bytesOut: [],
  refused: [],
};

const NOTHING: Figures = { open: null, connections: null, bytesIn: null, bytesOut: null, refused: null };

export function addPoint(history: History, at: number, open: number, rates: Rates | undefined): History {
  const last = history.at.at(-1);
  if (last !== undefined && at <= last) return history;
  const gap = last !== undefined && at - last > GAP_SECONDS;
  const known = gap ? append(history, last + 1, NOTHING) : history;
  const point = rates === undefined ? { ...NOTHING, open } : { open, ...rates };
  return since(append(known, at, point), at - HISTORY_SECONDS);
}

/** The highest value of a column; 0 if there is none. */
export function peakOf(column: Column): number {
  return column.reduce<number>((peak, value) => Math.max(peak, value ?? 0), 0);
}

function append(history: History, at: number, figures: Figures): History {
  return {
    at: [...history.at, at],
    open: [...history.open, figures.open],
    connections: [...history.connections, figures.connections],
    bytesIn: [...history.bytesIn, figures.bytesIn],
    bytesOut: [...history.bytesOut, figures.bytesOut],
    refused: [...history.refused, figures.refused],
  };
}

function since(history: History, oldest: number): History {
  const from = history.at.findIndex(at => at >= oldest);
  if (from <= 0) return history;
  return {
    at: history.at.slice(from),
    open: history.open.slice(from),
    connections: history.connections.slice(from),
    bytesIn: history.bytesIn.slice(from),
    bytesOut: history.bytesOut.slice(from),
    refused: history.refused.slice(from),
  };
}
