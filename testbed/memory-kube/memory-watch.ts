// One watch of an API server in memory: events wait in a queue, as they would on the wire.

import type { WatchEnd, WatchEvent } from '../../src/kube/kube-api.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import type { Resource } from '../../src/kube/resources.ts';

export class MemoryWatch<T extends KubeObject = KubeObject> {
  readonly resource: Resource<T>;
  readonly #eventOf: (change: never) => WatchEvent<T> | undefined;
  readonly #onEnd: () => void;
  readonly #queue: WatchEvent<T>[] = [];
  #end: WatchEnd | undefined;
  #isCut = false;
  #wake = () => {};

  constructor(
    resource: Resource<T>,
    eventOf: (change: never) => WatchEvent<T> | undefined,
    onEnd: () => void,
  ) {
    this.resource = resource;
    this.#eventOf = eventOf;
    this.#onEnd = onEnd;
  }

  add(change: object): void {
    const event = this.#eventOf(change as never);
    if (event !== undefined) this.#push(event);
  }

  bookmark(resourceVersion: string): void {
    this.#push({ type: 'BOOKMARK', resourceVersion });
  }

  /** What is in the queue is lost. */
  cut(end: WatchEnd): void {
    this.#isCut = true;
    this.close(end);
  }

  /** After what is in the queue. */
  close(end: WatchEnd): void {
    this.#end ??= end;
    this.#wake();
  }

  /** `pass` is waited for before each event. */
  async deliver(
    onEvent: (event: WatchEvent<T>) => void,
    signal: AbortSignal,
    pass: () => Promise<unknown>,
  ): Promise<WatchEnd> {
    const abort = () => this.cut({ why: 'aborted' });
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    try {
      for (;;) {
        if (this.#queue.length > 0 && !this.#isCut) await pass();
        const event = this.#isCut ? undefined : this.#queue.shift();
        if (event !== undefined) onEvent(event);
        else if (this.#end !== undefined) return signal.aborted ? { why: 'aborted' } : this.#end;
        else await new Promise<void>(resolve => (this.#wake = resolve));
      }
    } catch (error) {
      return { why: 'failed', fault: { status: 0, reason: 'Unexpected', message: String(error) } };
    } finally {
      signal.removeEventListener('abort', abort);
      this.#onEnd();
    }
  }

  #push(event: WatchEvent<T>): void {
    if (this.#end !== undefined) return;
    this.#queue.push(event);
    this.#wake();
  }
}
