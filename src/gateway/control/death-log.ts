// Deaths of threads, by kind: how long to wait before the next start, and whether threads of a kind keep dying, so that
// this replica should get no new connections. Pure: the caller brings the time.

/** After this long without a death, a kind of thread has recovered: the next death counts as the first. */
const RECOVERED_MS = 60_000;
/** This many deaths in a row mean that threads of the kind keep dying. */
const KEEPS_DYING = 3;
/** The pause after the second death in a row, and after the third; then it doubles each time, up to the longest. */
const SECOND_PAUSE_MS = 1000;
const FIRST_BACK_OFF_MS = 5000;
const LONGEST_BACK_OFF_MS = 60_000;
/** After the pause, threads of the kind must live this long before they count as healthy. */
const HEALTHY_MS = 10_000;

export interface Death {
  /** In a row, including this one. */
  readonly count: number;
  /** Until the next start. */
  readonly pauseMs: number;
  readonly keepsDying: boolean;
}

interface Last {
  readonly count: number;
  /** When the next start is due. */
  readonly startAt: number;
}

/** How long to wait after that many deaths in a row. */
export type BackOff = (count: number) => number;

export class DeathLog<Kind extends string> {
  readonly #backOff: BackOff;
  readonly #last = new Map<Kind, Last>();

  constructor(backOff: BackOff = pauseAfter) {
    this.#backOff = backOff;
  }

  add(kind: Kind, now: number): Death {
    const last = this.#last.get(kind);
    const count = last !== undefined && now - last.startAt < RECOVERED_MS ? last.count + 1 : 1;
    const pauseMs = this.#backOff(count);
    this.#last.set(kind, { count, startAt: now + pauseMs });
    return { count, pauseMs, keepsDying: count >= KEEPS_DYING };
  }

  /** A kind whose threads keep dying, if any. */
  failing(now: number): Kind | undefined {
    for (const [kind, { count, startAt }] of this.#last) {
      if (count >= KEEPS_DYING && now < startAt + HEALTHY_MS) return kind;
    }
    return undefined;
  }
}

function pauseAfter(count: number): number {
  if (count === 1) return 0;
  if (count < KEEPS_DYING) return SECOND_PAUSE_MS;
  return Math.min(LONGEST_BACK_OFF_MS, FIRST_BACK_OFF_MS * 2 ** (count - KEEPS_DYING));
}
