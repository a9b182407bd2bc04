// The thread of the health checks: a schedule, the checks under way, and the control thread's messages. It writes
// what it finds to the shared memory of the backends, where workers see it, and tells the control thread of changes.
// Entry point of the thread.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { FaultLog } from '../fault-log.ts';
import {
  BACKEND_CHECKS_FAILED,
  BACKEND_CHECKS_OK,
  BACKEND_DOWN,
  BACKEND_FIELDS,
  SharedSlots,
} from '../shared/shared-memory.ts';
import { type CheckResult, checkBackend } from './check-backend.ts';
import type { FromHealth, HealthStart, ToHealth } from './health-messages.ts';
import { type HealthState, judge, newcomer } from './health-state.ts';
import type { HealthTarget } from './health-target.ts';
import { type Planned, Schedule } from './schedule.ts';
import { forgetHealth, setDown, wasChecked } from './shared-health.ts';

interface Checked {
  target: HealthTarget;
  state: HealthState;
  /** Index of the address that last answered. */
  preferred: number;
}

class HealthWorker {
  #control: MessagePort | undefined;
  readonly #totals: Int32Array;
  readonly #backends = new SharedSlots(BACKEND_FIELDS);
  readonly #schedule = new Schedule();
  readonly #checked = new Map<number, Checked>();
  #timer: NodeJS.Timeout | undefined;
  #stretch = 1;
  readonly #faults = new FaultLog('health', report => this.#tell({ kind: 'fault', report }));

  constructor(start: HealthStart) {
    this.#totals = new Int32Array(start.totals);
  }

  serve(control: MessagePort): void {
    this.#control = control;
    control.on('message', (message: ToHealth) => this.#message(message));
  }

  #message(message: ToHealth): void {
    if (message.kind === 'addresses') {
      for (const [slot, addresses] of message.backends) {
        const checked = this.#checked.get(slot);
        if (checked !== undefined) checked.target = { ...checked.target, addresses, isPending: false };
      }
      this.#hasten(message.backends.map(([slot]) => slot));
      return;
    }
    for (const page of message.pages) this.#backends.addPage(page);
    for (const slot of message.removed) {
      this.#checked.delete(slot);
      // The control thread has done so too, but a check may have ended in between.
      forgetHealth(this.#backends, this.#totals, slot);
    }
    for (const target of message.put) {
      // Other settings, or another thread before this one: what is known of the backend stays.
      const state = this.#checked.get(target.slot)?.state ?? this.#knownOf(target.slot);
      this.#checked.set(target.slot, { target, state, preferred: 0 });
    }
    const put = message.put.map(({ slot, health }) => ({ slot, everyMs: health.everyMs }));
    this.#schedule.change(put, message.removed, performance.now());
    this.#work();
  }

  #knownOf(slot: number): HealthState {
    const down = this.#backends.get(slot, BACKEND_DOWN) !== 0;
    return { ...newcomer, known: wasChecked(this.#backends, slot), down };
  }

  /** A name was looked up at last: those that could not be checked yet do not wait for another interval. */
  #hasten(slots: readonly number[]): void {
    const put = slots.flatMap(slot => {
      const checked = this.#checked.get(slot);
      return checked === undefined || checked.state.known
        ? []
        : [{ slot, everyMs: checked.target.health.everyMs }];
    });
    if (put.length === 0) return;
    this.#schedule.change(put, [], performance.now());
    this.#work();
  }

  /** Starts what is due and sets the clock for the rest. */
  #work(): void {
    clearTimeout(this.#timer);
    const now = performance.now();
    for (let planned = this.#schedule.take(now); planned !== undefined; planned = this.#schedule.take(now)) {
      void this.#check(planned);
    }
    const next = this.#schedule.nextAt();
    if (next < Number.POSITIVE_INFINITY) {
      this.#timer = setTimeout(() => this.#work(), Math.max(1, next - now));
    }
    this.#tellStretch();
  }

  async #check(planned: Planned): Promise<void> {
    const checked = this.#checked.get(planned.slot);
    try {
      if (checked !== undefined) {
        const result = await checkBackend(checked.target, checked.preferred);
        // Removed meanwhile, or checked otherwise: the answer is to a question that nobody asks any more.
        if (!planned.gone) this.#record(checked, result);
        checked.preferred = result.preferred;
      }
    } catch (error) {
      // It counts neither way, and the next check comes in its time.
      this.#faults.write(error, { slot: String(planned.slot) });
    }
    this.#schedule.finish(planned, performance.now());
    this.#work();
  }

  #record(checked: Checked, { ok, why }: CheckResult): void {
    if (ok === undefined) return;
    const { slot, health } = checked.target;
    const { down } = checked.state;
    checked.state = judge(checked.state, ok, health);
    const isChanged = checked.state.down !== down;
    if (isChanged) setDown(this.#backends, this.#totals, slot, !down);
    // Afterwards: with its first check a backend is known, and must not be up for a moment if it is down.
    this.#backends.add(slot, ok ? BACKEND_CHECKS_OK : BACKEND_CHECKS_FAILED, 1);
    if (isChanged) this.#tell({ kind: 'changed', slot, up: down, why });
  }

  #tellStretch(): void {
    const stretch = Math.round(this.#schedule.stretch * 100) / 100;
    if (stretch === this.#stretch) return;
    this.#stretch = stretch;
    this.#tell({ kind: 'stretch', stretch });
  }

  #tell(message: FromHealth): void {
    this.#control?.postMessage(message);
  }
}

if (parentPort !== null) new HealthWorker(workerData as HealthStart).serve(parentPort);
