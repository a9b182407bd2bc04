// The DNS server as its owner sees it: a thread that listens, gets names, and is started again when it dies.

import { Worker } from 'node:worker_threads';
import type { ListenAddress } from '../../config/config.ts';
import { ListenError } from '../../gateway/control/listen-error.ts';
import { reactorErrorOf } from '../../gateway/io/net-reactor.ts';
import { threadEntry } from '../../program-file.ts';
import { rcodeName } from '../../wire/dns-message.ts';
import type { ServedNames } from '../served-zones.ts';
import { COUNTS, type DnsStart, type FromDns, NOT_ANSWERED, type ToDns } from './dns-messages.ts';

/** 100,000 names take a tenth of it. */
const HEAP = { maxYoungGenerationSizeMb: 8, maxOldGenerationSizeMb: 1024 } as const;
/** After its death the thread starts again: at once would be a busy loop if it dies at its start. */
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 30_000;
const STOP_MS = 1000;

export interface DnsServerOptions {
  readonly on: ListenAddress;
  /** For messages: `:53 (dnsServer)`. */
  readonly name: string;
  /** See DnsStart. */
  readonly isShared?: boolean;
  readonly isTaken?: boolean;
  readonly names: ServedNames;
  /** Something that its operator should know. */
  readonly onTrouble: (message: string, details: Readonly<Record<string, unknown>>) => void;
}

export class DnsServer implements AsyncDisposable {
  readonly #options: DnsServerOptions;
  readonly #shared = new SharedArrayBuffer(COUNTS * Float64Array.BYTES_PER_ELEMENT);
  readonly #counts = new Float64Array(this.#shared);
  #on: ListenAddress;
  #names: ServedNames;
  #worker: Worker | undefined;
  #addresses: readonly string[] = [];
  #waitMs = FIRST_WAIT_MS;
  #revival: NodeJS.Timeout | undefined;
  #isClosed = false;

  private constructor(options: DnsServerOptions) {
    this.#options = options;
    this.#on = options.on;
    this.#names = options.names;
  }

  /** Throws a ListenError. */
  static async start(options: DnsServerOptions): Promise<DnsServer> {
    const server = new DnsServer(options);
    await server.#start(options.isTaken === true);
    return server;
  }

  /** As `address:port`. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** Queries by the name of their rcode; `none` for those without an answer. */
  get queries(): ReadonlyMap<string, number> {
    const counted = Array.from(this.#counts, (count, i) => [
      i === NOT_ANSWERED ? 'none' : rcodeName(i),
      count,
    ]) as [string, number][];
    return new Map(counted.filter(([, count]) => count > 0));
  }

  use(names: ServedNames): void {
    this.#names = names;
    this.#send({ kind: 'names', names });
  }

  /** Ends the thread as a fault would, for tests. */
  kill(): void {
    void this.#worker?.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#revival);
    const worker = this.#worker;
    if (worker === undefined) return;
    const ended = new Promise<void>(resolve => worker.once('exit', () => resolve()));
    this.#send({ kind: 'stop' });
    const timer = setTimeout(() => void worker.terminate(), STOP_MS);
    await ended;
    clearTimeout(timer);
  }

  #send(message: ToDns): void {
    this.#worker?.postMessage(message);
  }

  async #start(isTaken: boolean): Promise<void> {
    const { isShared = false, name } = this.#options;
    const start: DnsStart = { on: this.#on, isShared, isTaken, names: this.#names, counts: this.#shared };
    const worker = new Worker(threadEntry('dns/server/dns-worker'), {
      workerData: start,
      name: 'causeway-dns',
      resourceLimits: HEAP,
    });
    let cause: Error | undefined;
    const listening = Promise.withResolvers<readonly string[]>();
    worker.on('message', (message: FromDns) => {
      if (message.kind === 'listening') listening.resolve(message.addresses);
      else if (message.kind === 'failed') {
        const why = message.code === '' ? message.message : reactorErrorOf({ ...message, name: '' });
        listening.reject(new ListenError(name, why));
      } else this.#report(message);
    });
    worker.on('error', error => {
      cause = error as Error;
    });
    worker.on('exit', code => {
      const why = cause ?? new Error(`The thread ended with exit code ${code}`);
      listening.reject(why);
      if (this.#worker === worker) this.#onDeath(why);
    });
    try {
      this.#addresses = await listening.promise;
    } catch (error) {
      await worker.terminate();
      throw error;
    }
    if (this.#isClosed) {
      await worker.terminate();
      return;
    }
    // With port 0, the same port again after a death.
    const [first] = this.#addresses;
    this.#on = { ...this.#on, port: Number(first?.slice(first.lastIndexOf(':') + 1) ?? this.#on.port) };
    this.#worker = worker;
    if (start.names !== this.#names) this.use(this.#names);
  }

  #report(message: Extract<FromDns, { kind: 'trouble' | 'fault' }>): void {
    const { onTrouble } = this.#options;
    if (message.kind === 'fault') onTrouble('fault in the DNS server', { error: message.message });
    else {
      const { address, message: error } = message;
      onTrouble('cannot answer DNS queries on an address', { address, error });
    }
  }

  #onDeath(cause: Error): void {
    this.#worker = undefined;
    if (this.#isClosed) return;
    this.#options.onTrouble('the DNS thread ended; starting it again', { error: cause.message });
    this.#revival = setTimeout(() => void this.#revive(), this.#waitMs);
    this.#waitMs = Math.min(2 * this.#waitMs, LONGEST_WAIT_MS);
  }

  async #revive(): Promise<void> {
    try {
      await this.#start(true);
      this.#waitMs = FIRST_WAIT_MS;
    } catch (error) {
      this.#onDeath(error as Error);
    }
  }
}
