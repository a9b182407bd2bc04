// The listeners of a gateway, as its control thread has them. Each is opened in every worker before it is served; if one
// cannot be, those that are new are closed again, and what was open stays.

import { formatIpPort } from '../../wire/ip-address.ts';
import { IN_USE, type SocketAddress } from '../io/reactor.ts';
import type { ListenerEntry } from '../table/listener-table.ts';
import { ListenError } from './listen-error.ts';
import { type ListenPlace, probeListener } from './probe-listener.ts';
import type { WorkerThread } from './worker-thread.ts';

/** Port 0: how often another free port is tried when somebody else takes it first. */
const FREE_PORT_TRIES = 5;

export interface Listener extends ListenerEntry, ListenPlace {}

export interface OpenListener {
  readonly on: string;
  /** The real address, `host:port`. */
  readonly address: string;
}

/** Not served yet. */
interface Opened {
  readonly index: number;
  readonly listener: Listener;
  readonly address: SocketAddress;
}

export class OpenListeners {
  readonly #workers: readonly WorkerThread[];
  /** Whether several threads can listen on one port on this platform. */
  readonly #share: boolean;
  /** By index; those of closed ones stay for the records of their connections. */
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

  /** What workers are to know of those that are served. */
  get entries(): readonly (readonly [index: number, entry: ListenerEntry])[] {
    return this.#open.map(({ index, listener }) => [index, entryOf(listener)]);
  }

  nameOf(index: number): string {
    return this.#names[index] ?? '';
  }

  /** An index that no other listener has. */
  reserve(name: string): number {
    return this.#names.push(name) - 1;
  }

  /** Opens in every worker what is not open yet. On failure closes what it opened and throws. */
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

  /** From now on these are served, some of which were just opened. Answers which are not any more. */
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

  /** In a worker that starts anew. Answers the first that cannot be opened there. */
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
      const word = results.find(result => result !== undefined && result < 0);
      if (word === undefined) return { index, listener, address };
      this.close([index]);
      if (listener.port !== 0 || word !== IN_USE || tries === FREE_PORT_TRIES)
        throw new ListenError(listener.on, word);
    }
  }

  /** Ours already, on another address or in another spelling: then nobody else can be there. */
  #hasPort(port: number): boolean {
    return port !== 0 && this.#share && this.#open.some(({ address }) => address.port === port);
  }
}

/** What tells each of them from the others, also after an edit. */
function placesOf(listeners: readonly Listener[]): string[] {
  const seen = new Map<string, number>();
  return listeners.map(({ host, port, on }) => {
    // Each port 0 is a listener of its own, told apart by what the file calls it, and by their order.
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
