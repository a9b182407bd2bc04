// A gateway's listeners, on the control thread. Each is opened in every worker before it is served; if one cannot be
// opened, the new ones are closed again, and those that were open stay.

import { formatIpPort } from '../../wire/ip-address.ts';
import { IN_USE, type SocketAddress } from '../io/reactor.ts';
import type { ListenerEntry } from '../table/listener-table.ts';
import { ListenError } from './listen-error.ts';
import { type ListenPlace, probeListener } from './probe-listener.ts';
import type { WorkerThread } from './worker-thread.ts';

/** For port 0: how many free ports are tried when another process takes them first. */
const FREE_PORT_TRIES = 5;

export interface Listener extends ListenerEntry, ListenPlace {}

export interface OpenListener {
  readonly on: string;
  /** The real address, `host:port`. */
  readonly address: string;
}

/** A listener that is open in every worker. */
interface Opened {
  readonly index: number;
  readonly listener: Listener;
  readonly address: SocketAddress;
}

export class OpenListeners {
  readonly #workers: readonly WorkerThread[];
  /** Whether several threads can listen on one port on this platform. */
  readonly #share: boolean;
  /** By index; names of closed listeners stay for the records of their connections. */
  readonly #names: string[] = [];
  #open: readonly Opened[] = [];

  constructor(workers: readonly WorkerThread[], share: boolean) {
    this.#workers = workers;
    this.#share = share;
  }

  get addresses(): readonly OpenListener[] {
    return this.#open.map(({ listener, address }) => ({
      on: listener.on,
      address: formatIpPort(address.address, 0, address.port),
    }));
  }

  /** The table entries of the listeners that are served. */
  get entries(): readonly (readonly [index: number, entry: ListenerEntry])[] {
    return this.#open.map(({ index, listener }) => [index, entryOf(listener)]);
  }

  nameOf(index: number): string {
    return this.#names[index] ?? '';
  }

  /** Returns an index that no other listener has. */
  reserve(name: string): number {
    return this.#names.push(name) - 1;
  }

  /** Opens the listeners that are not open yet, in every worker. On failure, closes those it opened and throws. */
  async openNew(listeners: readonly Listener[]): Promise<readonly Opened[]> {
    const isOpen = new Set(placesOf(this.#open.map(({ listener }) => listener)));
    const opened: Opened[] = [];
    try {
      for (const [i, place] of placesOf(listeners).entries()) {
        if (!isOpen.has(place)) opened.push(await this.#openOne(listeners[i]));
      }
      return opened;
    } catch (error) {
      this.close(opened.map(open => open.index));
      throw error;
    }
  }

  /** Serves these from now on, some of which were just opened. Returns the indexes of those to close. */
  serve(listeners: readonly Listener[], opened: readonly Opened[]): readonly number[] {
    const known = [...this.#open, ...opened];
    const knownPlaces = placesOf(known.map(({ listener }) => listener));
    const open = placesOf(listeners).flatMap((place, i) => {
      const found = known[knownPlaces.indexOf(place)];
      return found === undefined ? [] : [{ ...found, listener: listeners[i] }];
    });
    this.#open = open;
    for (const { index, listener } of open) this.#names[index] = listener.on;
    return known.flatMap(({ index }) => (open.some(still => still.index === index) ? [] : [index]));
  }

  close(indexes: readonly number[]): void {
    for (const worker of this.#workers) worker.send({ kind: 'close', indexes });
  }

  /** Opens all listeners in a worker that has restarted. Resolves to the first error. */
  async openIn(worker: WorkerThread): Promise<ListenError | undefined> {
    for (const { index, address, listener } of this.#open) {
      const result = await worker.open({ kind: 'open', index, address });
      if (result !== undefined && result < 0) return new ListenError(listener.on, result);
    }
    return undefined;
  }

  async #openOne(listener: Listener): Promise<Opened> {
    for (let tries = 1; ; tries++) {
      const index = this.reserve(listener.on);
      const address = await probeListener(listener, this.#hasPort(listener.port));
      const results = await Promise.all(
        this.#workers.map(worker => worker.open({ kind: 'open', index, address })),
      );
      const error = results.find(result => result !== undefined && result < 0);
      if (error === undefined) return { index, listener, address };
      this.close([index]);
      if (listener.port !== 0 || error !== IN_USE || tries === FREE_PORT_TRIES)
        throw new ListenError(listener.on, error);
    }
  }

  /** Whether we already listen on that port, on another address or in another spelling. */
  #hasPort(port: number): boolean {
    return port !== 0 && this.#share && this.#open.some(({ address }) => address.port === port);
  }
}

/** Keys that identify each listener, also across an edit. */
function placesOf(listeners: readonly Listener[]): string[] {
  const seen = new Map<string, number>();
  return listeners.map(({ host, port, on }) => {
    // Each port 0 is a separate listener, identified by its text in the file and its position.
    const place = `${host} ${port} ${port === 0 ? on : ''}`;
    const nth = seen.get(place) ?? 0;
    seen.set(place, nth + 1);
    return `${place} ${nth}`;
  });
}

function entryOf(listener: Listener): ListenerEntry {
  const { on, balancers, agents, idTlv, only, direct } = listener;
  return {
    on,
    balancers,
    agents,
    idTlv,
    ...(only !== undefined && { only }),
    ...(direct !== undefined && { direct }),
  };
}
