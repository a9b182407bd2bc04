// The screen of `causeway top`: state in, lines out, never wider or higher than the terminal. Pure.

import { printable } from '../text/printable.ts';
import { bytesText } from './bytes-text.ts';
import { hasProblem } from './choose-clusters.ts';
import { countText } from './count-text.ts';
import { durationText } from './duration-text.ts';
import { fitText, textWidth } from './fit-text.ts';
import {
  type ClusterFigures,
  type Rates,
  type Sample,
  sortClusters,
  type TopSort,
  topFigures,
} from './top-figures.ts';

type Paint = (code: string, text: string) => string;

const RED = '31';
const YELLOW = '33';
const DIM = '2';
const BOLD = '1';
const REVERSED = '7';

export interface TopState {
  /** Absent until the first answer. */
  readonly sample?: Sample | undefined;
  readonly before?: Sample | undefined;
  /** Why there is no newer answer, and for how long there has been none. */
  readonly lost?: { readonly text: string; readonly ms: number } | undefined;
  readonly sort: TopSort;
  /** Only clusters with problems. */
  readonly problems: boolean;
  /** Lines of the table that are above the screen. */
  readonly scroll: number;
}

export interface ScreenSize {
  readonly width: number;
  readonly height: number;
}

export interface TopScreen {
  readonly lines: readonly string[];
  /** The most that `scroll` can be. */
  readonly maxScroll: number;
}

/** `size` undefined: everything, for a pipe. */
export function topScreen(state: TopState, size: ScreenSize | undefined, paint: Paint): TopScreen {
  const { width, height } = size ?? { width: Number.POSITIVE_INFINITY, height: Number.POSITIVE_INFINITY };
  const line = (text: string, code?: string) => {
    const fitted = fitText(text, width);
    return code === undefined || fitted === '' ? fitted : paint(code, fitted);
  };
  const { sample } = state;
  const lost = lostText(state);
  if (sample === undefined) {
    return {
      lines: [line(lost ?? 'Waiting for the first answer', lost && RED)].slice(0, height),
      maxScroll: 0,
    };
  }
  const figures = topFigures(sample, state.before);
  const troubles = troublesOf(sample);
  // A third of the screen at most: the table is what people look at.
  const most = Math.max(1, Math.floor(height / 3));
  const shown = troubles.length > most ? troubles.slice(0, most - 1) : troubles;
  const more = troubles.length - shown.length;
  const top = [
    line(headText(sample), BOLD),
    ...(lost === undefined ? [] : [line(lost, RED)]),
    line(totalText(sample, figures.total)),
    line(`refused in 5 min: ${refusedText(figures.total.refused)}`),
    ...shown.map(({ text, isError }) => line(text, isError ? RED : YELLOW)),
    ...(more > 0 ? [line(`and ${countText(more, 'more problem')}: causeway status --problems`, YELLOW)] : []),
  ];
  const troubled = new Set(sample.clusters.filter(hasProblem).map(({ name }) => name));
  const clusters = state.problems
    ? figures.clusters.filter(({ name }) => troubled.has(name))
    : figures.clusters;
  const rows = rowsOf(sortClusters(clusters, state.sort));
  const [header, ...body] = tableOf(rows, state.sort);
  const footer = size === undefined ? 0 : 1;
  const room = Math.max(0, height - top.length - 2 - footer);
  const maxScroll = size === undefined ? 0 : Math.max(0, body.length - room);
  const from = Math.min(state.scroll, maxScroll);
  const visible = body.slice(from, from + room);
  const empty = state.problems ? 'No cluster has a problem' : 'No clusters';
  const lines = [
    ...top,
    '',
    line(header, DIM),
    ...(body.length === 0 && room > 0
      ? [line(empty, DIM)]
      : visible.map((text, i) => line(text, rows[from + i].code))),
  ];
  if (size === undefined) return { lines, maxScroll };
  const padded = [...lines, ...Array.from({ length: Math.max(0, height - 1 - lines.length) }, () => '')];
  const last = line(
    footerText(state, { from, to: from + visible.length, of: body.length }).padEnd(width),
    REVERSED,
  );
  return { lines: [...padded.slice(0, Math.max(0, height - 1)), ...(height > 0 ? [last] : [])], maxScroll };
}

/** The gateway does not answer: what is shown is old. */
function lostText({ lost, sample }: TopState): string | undefined {
  if (lost === undefined) return undefined;
  // The words that matter first: a narrow terminal cuts the rest.
  const age = sample === undefined ? '' : ` for ${durationText(Math.round(lost.ms / 1000) * 1000)}`;
  return `✗ No answer${age}, retrying: ${printable(lost.text)}`;
}

function headText({ status }: Sample): string {
  const { version, engine, workers, uptimeSeconds } = status;
  return `causeway ${printable(version)}  ${printable(engine)}, ${countText(workers, 'worker')}, up ${durationText(uptimeSeconds * 1000)}`;
}

function totalText({ status: { counts } }: Sample, total: Rates): string {
  const draining = counts.draining === 0 ? '' : `, ${counts.draining} with replaced processes`;
  return `${total.open} open${draining}, ${rateText(total.newPerSecond)} new/s, in ${speedText(total.bytesInPerSecond)}, out ${speedText(total.bytesOutPerSecond)}; ${countText(counts.clusters, 'cluster')}, ${countText(counts.routes, 'route')}`;
}

interface Trouble {
  readonly text: string;
  readonly isError: boolean;
}

/** Errors first. */
export function troublesOf({ status, clusters, notReady }: Sample): readonly Trouble[] {
  const error = (text: string): Trouble => ({ text: `✗ ${printable(text)}`, isError: true });
  const warning = (text: string): Trouble => ({ text: `! ${printable(text)}`, isError: false });
  const all = [
    ...(notReady === undefined ? [] : [error(`not ready: ${notReady}`)]),
    ...(status.config.ok ? [] : [error(`the file is refused: ${status.config.error ?? ''}`)]),
    ...status.sources
      .filter(({ up }) => !up)
      .map(({ name, error: why }) => error(`source ${name}: ${why ?? 'down'}`)),
    ...(status.config.restartNeeded.length === 0
      ? []
      : [warning(`restart needed for ${status.config.restartNeeded.join(', ')}`)]),
    ...status.findings
      .filter(({ severity }) => severity !== 'info')
      .map(({ severity, object, source, text }) =>
        (severity === 'error' ? error : warning)(`${object ?? source ?? 'file'}: ${text}`),
      ),
    ...clusters.flatMap(({ name, routes, findings }) => [
      ...routes.flatMap(({ kind, backends, redirect }) => {
        const down = backends.filter(({ up }) => up === false);
        if (backends.length === 0) return redirect ? [] : [error(`${name} ${kind}: no backend`)];
        if (down.length === 0) return [];
        const [{ address, why }] = down;
        const others = down.length === 1 ? '' : ` and ${down.length - 1} more`;
        const text = `${name} ${kind}: ${address}${others} down${why === undefined ? '' : `, ${why}`}`;
        return [(down.length === backends.length ? error : warning)(text)];
      }),
      ...findings
        .filter(({ severity }) => severity !== 'info')
        .map(({ severity, text }) => (severity === 'error' ? error : warning)(`${name}: ${text}`)),
    ]),
  ];
  return all.toSorted((a, b) => Number(b.isError) - Number(a.isError));
}

const columns = [
  'cluster',
  'route',
  'open',
  'new/s',
  'in/s',
  'out/s',
  'backends',
  'refused in 5 min',
] as const;
/** Columns of figures, aligned right. */
const FIGURES = new Set([2, 3, 4, 5]);
/** So that columns do not move while figures change. */
const MIN_WIDTHS = [0, 0, 6, 6, 11, 11, 8, 0] as const;
const sortColumn: Readonly<Record<TopSort, readonly number[]>> = {
  name: [0],
  open: [2],
  new: [3],
  traffic: [4, 5],
  in: [4],
  out: [5],
  down: [6],
  refused: [7],
};

interface Row {
  readonly cells: readonly string[];
  readonly code?: string;
}

/** One for each route; the cluster's name stands in its first. */
function rowsOf(clusters: readonly ClusterFigures[]): readonly Row[] {
  return clusters.flatMap(({ name, routes }) =>
    routes.map((route, index) => {
      const { kind, redirect, backends, up } = route;
      const code = redirect ? undefined : up === 0 ? RED : up < backends ? YELLOW : undefined;
      return {
        cells: [
          index === 0 ? printable(name) : '',
          printable(kind),
          String(route.open),
          rateText(route.newPerSecond),
          speedText(route.bytesInPerSecond),
          speedText(route.bytesOutPerSecond),
          redirect ? 'redirect' : `${up}/${backends}`,
          route.refused.length === 0 ? '' : refusedText(route.refused),
        ],
        ...(code !== undefined && { code }),
      };
    }),
  );
}

function tableOf(rows: readonly Row[], sort: TopSort): readonly string[] {
  const titles = columns.map((title, at) => (sortColumn[sort].includes(at) ? `${title}▾` : title));
  const widths = titles.map((title, at) =>
    rows.reduce(
      (width, { cells }) => Math.max(width, textWidth(cells[at])),
      Math.max(MIN_WIDTHS[at], textWidth(title)),
    ),
  );
  const aligned = (cells: readonly string[]) =>
    cells
      .map((cell, at) => {
        const gap = ' '.repeat(widths[at] - textWidth(cell));
        return FIGURES.has(at) ? gap + cell : cell + gap;
      })
      .join('  ')
      .trimEnd();
  return [aligned(titles), ...rows.map(({ cells }) => aligned(cells))];
}

function footerText(
  { sort, problems }: TopState,
  { from, to, of }: { readonly from: number; readonly to: number; readonly of: number },
): string {
  const rows = to - from < of ? `  ${from + 1}–${to} of ${of}, ↑↓ to scroll` : '';
  return `q quit  sort (${sort}): o open  n new  t traffic  r refused  d down  a name  p ${problems ? 'all' : 'problems'}${rows}`;
}

function refusedText(refused: Rates['refused']): string {
  return refused.length === 0
    ? 'none'
    : refused.map(([reason, count]) => `${printable(reason)} ${count}`).join(', ');
}

/** Small rates are not nothing. */
function rateText(perSecond: number): string {
  return perSecond === 0 ? '0' : perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}

function speedText(bytesPerSecond: number): string {
  return `${bytesText(Math.round(bytesPerSecond))}/s`;
}
