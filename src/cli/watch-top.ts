// The loop of `causeway top` in a terminal: asks, draws, listens to keys, until somebody quits. A gateway that does not
// answer is asked again and again.

import type { ReadStream, WriteStream } from 'node:tty';
import { AdminClientError } from './admin-client.ts';
import { openLiveScreen } from './live-screen.ts';
import type { Sample, TopSort } from './top-figures.ts';
import { type TopState, topScreen } from './top-screen.ts';

const EVERY_MS = 1000;
/** The gateway spends at most this share of its time on us: the answer for 10,000 clusters takes a while. */
const SHARE = 0.1;

export interface WatchTop {
  readonly first: Sample;
  readonly sort: TopSort;
  readonly problems: boolean;
  readonly input: ReadStream;
  readonly output: WriteStream;
  /** Aborted: ends. */
  readonly signal: AbortSignal;
  take(): Promise<Sample>;
  paint(code: string, text: string): string;
  suspend(): void;
  end(): void;
  /** Ends early with the signal. */
  wait(ms: number): Promise<void>;
}

const sortOfKey: Readonly<Record<string, TopSort>> = {
  o: 'open',
  c: 'open',
  n: 'new',
  t: 'traffic',
  i: 'in',
  u: 'out',
  r: 'refused',
  d: 'down',
  a: 'name',
};

export async function watchTop(options: WatchTop): Promise<void> {
  const { take, paint, signal, end, suspend, wait } = options;
  let state: TopState = {
    sample: options.first,
    sort: options.sort,
    problems: options.problems,
    scroll: 0,
  };
  let maxScroll = 0;
  using screen = openLiveScreen({
    input: options.input,
    output: options.output,
    onKey(key) {
      if (key === 'q' || key === 'Q') return end();
      state = afterKey(state, key, { page: screen.size.height - 4, maxScroll });
      draw();
    },
    onRedraw: () => draw(),
    onEnd: end,
    suspend,
  });
  const draw = () => {
    if (signal.aborted) return;
    const drawn = topScreen(state, screen.size, paint);
    ({ maxScroll } = drawn);
    screen.draw(drawn.lines);
  };
  draw();
  const ended = new Promise<void>(resolve =>
    signal.addEventListener('abort', () => resolve(), { once: true }),
  );
  while (!signal.aborted) {
    const took = state.sample === undefined || state.lost !== undefined ? 0 : (state.sample.took ?? 0);
    await wait(Math.max(EVERY_MS, took / SHARE));
    if (signal.aborted) return;
    const next = await Promise.race([answer(take), ended]);
    if (next === undefined) return;
    state =
      typeof next === 'string'
        ? { ...state, lost: { text: next, ms: performance.now() - (state.sample?.at ?? 0) } }
        : {
            ...state,
            before: state.lost === undefined ? state.sample : undefined,
            sample: next,
            lost: undefined,
          };
    draw();
  }
}

/** A sentence if there is none. */
async function answer(take: () => Promise<Sample>): Promise<Sample | string> {
  const started = performance.now();
  try {
    const sample = await take();
    return { ...sample, took: performance.now() - started };
  } catch (error) {
    if (error instanceof AdminClientError) return error.message;
    throw error;
  }
}

function afterKey(
  state: TopState,
  key: string,
  { page, maxScroll }: { readonly page: number; readonly maxScroll: number },
): TopState {
  const sort = sortOfKey[key];
  if (sort !== undefined) return { ...state, sort, scroll: 0 };
  if (key === 'p') return { ...state, problems: !state.problems, scroll: 0 };
  const by = scrollOfKey(key, page);
  return { ...state, scroll: Math.max(0, Math.min(maxScroll, state.scroll + by)) };
}

function scrollOfKey(key: string, page: number): number {
  switch (key) {
    case '\x1b[A':
    case '\x1bOA':
    case 'k':
      return -1;
    case '\x1b[B':
    case '\x1bOB':
    case 'j':
      return 1;
    case '\x1b[5~':
      return -page;
    case '\x1b[6~':
    case ' ':
      return page;
    case '\x1b[H':
    case 'g':
      return Number.NEGATIVE_INFINITY;
    case '\x1b[F':
    case 'G':
      return Number.POSITIVE_INFINITY;
    default:
      return 0;
  }
}
