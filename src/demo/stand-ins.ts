// Controls the thread of the stand-ins (stand-ins-worker.ts): starts it, sends it orders, ends it.

import { Worker } from 'node:worker_threads';
import { threadEntry } from '../program-file.ts';
import type { Place } from './place.ts';
import type { Answer, ClusterPorts, Order, StandInsData } from './stand-ins-worker.ts';

export class StandIns implements AsyncDisposable {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #failed = Promise.withResolvers<never>();
  #lastId = 0;
  #ended: Error | undefined;

  private constructor(worker: Worker) {
    this.#worker = worker;
    worker.on('message', ({ id, value, error }: Answer) => {
      if (error === undefined) this.#waiting.get(id)?.resolve(value);
      else this.#waiting.get(id)?.reject(new Error(error));
      this.#waiting.delete(id);
    });
    const end = (error: Error) => {
      this.#ended ??= error;
      for (const { reject } of this.#waiting.values()) reject(this.#ended);
      this.#waiting.clear();
      this.#failed.reject(this.#ended);
    };
    // Nothing may be waiting for it when the thread ends.
    this.#failed.promise.catch(() => {});
    worker.on('error', end);
    worker.on('exit', () => end(new Error('The thread of the stand-ins ended')));
  }

  /** The ports are in the order of the clusters. */
  static async start(data: StandInsData): Promise<{ standIns: StandIns; ports: readonly ClusterPorts[] }> {
    const entry = threadEntry('demo/stand-ins-worker');
    const standIns = new StandIns(new Worker(entry, { workerData: data, name: 'causeway-demo' }));
    try {
      return { standIns, ports: (await standIns.#answer(0)) as readonly ClusterPorts[] };
    } catch (error) {
      await standIns[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Rejects when the thread ends, intended or not. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  /** The agents are in the order of the clusters. */
  async startTraffic(gateway: Place, agents: readonly Place[]): Promise<void> {
    await this.#ask({ op: 'start-traffic', gateway, agents });
  }

  /** Cuts its connections. */
  async stopApi(cluster: string, index: number): Promise<void> {
    await this.#ask({ op: 'stop-api', cluster, index });
  }

  async startApi(cluster: string, index: number): Promise<void> {
    await this.#ask({ op: 'start-api', cluster, index });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  #ask(order: Order): Promise<unknown> {
    const id = ++this.#lastId;
    const answer = this.#answer(id);
    this.#worker.postMessage({ id, order });
    return answer;
  }

  #answer(id: number): Promise<unknown> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const waiting = Promise.withResolvers<unknown>();
    this.#waiting.set(id, waiting);
    return waiting.promise;
  }
}
