// Turns check results into a state: the first result decides at once; then `fall` failures in a row take a backend
// down, and `rise` successes in a row bring it back.

import type { Health } from '../../cluster/cluster.ts';

export interface HealthState {
  /** Whether it was ever checked. Until then it is neither up nor down, and is tried like a backend that is up. */
  readonly known: boolean;
  readonly down: boolean;
  /** Results in a row that contradict `down`. */
  readonly streak: number;
}

export const unchecked: HealthState = { known: false, down: false, streak: 0 };

export function judge(
  state: HealthState,
  ok: boolean,
  { rise, fall }: Pick<Health, 'rise' | 'fall'>,
): HealthState {
  const { known, down } = state;
  if (!known) return { known: true, down: !ok, streak: 0 };
  if (ok !== down) return state.streak === 0 ? state : { known, down, streak: 0 };
  const streak = state.streak + 1;
  return streak >= (down ? rise : fall) ? { known, down: !down, streak: 0 } : { known, down, streak };
}
