// Deaths of threads, by kind: how long to wait before the next start, and whether a kind of thread keeps dying, so that
// this replica should get no new connections. Pure: the caller brings the time.

/** A thread that has lived this long since the last death of its kind has recovered: the next death is a first one. */
const RECOVERED_MS = 60_000;
/** From this many deaths in a row on, threads of the kind keep dying. */
const KEEPS_DYING = 3;
/** The second start waits a moment. From the third death on the pause doubles each time, up to the longest. */
const SECOND_PAUSE_MS = 1000;
const FIRST_BACK_OFF_MS = 5000;
const LONGEST_BACK_OFF_MS = 60_000;
/** After the pause it must live this long before it counts as well again. */
const WELL_MS = 10_000;

export interface Death {
  /** In a row, this one included. */
  readonly count: number;
  /** Until the next start. */
  readonly pauseMs: number;
  readonly keepsDying: boolean;
}

interface Last {
  readonly count: number;
  /** When the next start was due. */
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

  /** A kind whose threads keep dying; undefined when all are well. */
  failing(now: number): Kind | undefined {
    for (const [kind, { count, startAt }] of this.#last) {
      if (count >= KEEPS_DYING && now < startAt + WELL_MS) return kind;
    }
    return undefined;
  }
}

function pauseAfter(count: number): number {
  if (count === 1) return 0;
  if (count < KEEPS_DYING) return SECOND_PAUSE_MS;
  return Math.min(LONGEST_BACK_OFF_MS, FIRST_BACK_OFF_MS * 2 ** (count - KEEPS_DYING));
}
