// Entry point of the health thread: a schedule, the checks in flight, and the control thread's messages. It writes
// results to the backends' shared memory, where workers read them, and reports changes to the control thread.

import { flushCompileCache } from 'node:module';
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
import { type HealthState, judge, unchecked } from './health-state.ts';
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
  readonly #faults = new FaultLog('health', report => this.#send({ kind: 'fault', report }));

  constructor(start: HealthStart) {
    this.#totals = new Int32Array(start.totals);
  }

  serve(control: MessagePort): void {
    this.#control = control;
    control.on('message', (message: ToHealth) => this.#onMessage(message));
  }

  #onMessage(message: ToHealth): void {
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
      // The control thread has done this too, but a check may have ended in between.
      forgetHealth(this.#backends, this.#totals, slot);
    }
    for (const target of message.put) {
      // The state survives a change of settings, and the death of the thread before this one.
      const state = this.#checked.get(target.slot)?.state ?? this.#knownOf(target.slot);
      this.#checked.set(target.slot, { target, state, preferred: 0 });
    }
    const put = message.put.map(({ slot, health }) => ({ slot, everyMs: health.everyMs }));
    this.#schedule.change(put, message.removed, performance.now());
    this.#work();
  }

  #knownOf(slot: number): HealthState {
    const down = this.#backends.get(slot, BACKEND_DOWN) !== 0;
    return { ...unchecked, known: wasChecked(this.#backends, slot), down };
  }

  /** A name was looked up: backends that could not be checked until now do not wait for another interval. */
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

  /** Starts the checks that are due, and sets the timer for the next one. */
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
    this.#sendStretch();
  }

  async #check(planned: Planned): Promise<void> {
    const checked = this.#checked.get(planned.slot);
    try {
      if (checked !== undefined) {
        const result = await checkBackend(checked.target, checked.preferred);
        // If it was removed or has new settings meanwhile, the result no longer applies.
        if (!planned.gone) this.#record(checked, result);
        checked.preferred = result.preferred;
      }
    } catch (error) {
      // It counts neither way, and the next check is scheduled as usual.
      this.#faults.write(error, { slot: String(planned.slot) });
    }
    this.#schedule.end(planned, performance.now());
    this.#work();
  }

  #record(checked: Checked, { ok, why }: CheckResult): void {
    if (ok === undefined) return;
    const { slot, health } = checked.target;
    const { down } = checked.state;
    checked.state = judge(checked.state, ok, health);
    const isChanged = checked.state.down !== down;
    if (isChanged) setDown(this.#backends, this.#totals, slot, !down);
    // After setDown(): the first count makes the state known, and a backend that is down must not appear up.
    this.#backends.add(slot, ok ? BACKEND_CHECKS_OK : BACKEND_CHECKS_FAILED, 1);
    if (isChanged) this.#send({ kind: 'changed', slot, up: down, why });
  }

  #sendStretch(): void {
    const stretch = Math.round(this.#schedule.stretch * 100) / 100;
    if (stretch === this.#stretch) return;
    this.#stretch = stretch;
    this.#send({ kind: 'stretch', stretch });
  }

  #send(message: FromHealth): void {
    this.#control?.postMessage(message);
  }
}

if (parentPort !== null) {
  new HealthWorker(workerData as HealthStart).serve(parentPort);
  // It will not end in a way that does this.
  flushCompileCache();
}
