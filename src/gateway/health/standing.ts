// What a check's result means: `fall` failures in a row take a backend down, `rise` successes in a row bring it back.

import type { Health } from '../../cluster/cluster.ts';

export interface Standing {
  readonly down: boolean;
  /** Results in a row that say otherwise. */
  readonly streak: number;
}

/** A new backend counts as up until checks say otherwise. */
export const newcomer: Standing = { down: false, streak: 0 };

export function judge(
  standing: Standing,
  ok: boolean,
  { rise, fall }: Pick<Health, 'rise' | 'fall'>,
): Standing {
  const { down } = standing;
  if (ok !== down) return standing.streak === 0 ? standing : { down, streak: 0 };
  const streak = standing.streak + 1;
  return streak >= (down ? rise : fall) ? { down: !down, streak: 0 } : { down, streak };
}
