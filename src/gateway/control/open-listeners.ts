// A gateway's listeners, on the control thread. Each is opened in every worker before it is served; if one cannot be
// opened, the new ones are closed again, and those that were open stay.

import { formatIpPort } from '../../wire/ip-address.ts';
import { IN_USE, type SocketAddress } from '../io/reactor.ts';
import type { ListenerEntry } from '../table/listener-table.ts';
import { closeSocket, type InheritedSocket, type InheritedSockets } from './inherited-sockets.ts';
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
  /** By worker: the socket that it opened; undefined after its death. */
  readonly descriptors: (number | undefined)[];
  /** The socket that was open before; the workers have duplicates. */
  readonly inherited: InheritedSocket | undefined;
}

export class OpenListeners implements Disposable {
  readonly #workers: readonly WorkerThread[];
  /** Whether several threads can listen on one port on this platform. */
  readonly #share: boolean;
  readonly #inherited: InheritedSockets;
  /** By index; names of closed listeners stay for the records of their connections. */
  readonly #names: string[] = [];
  #open: readonly Opened[] = [];
  #isShared = false;
  #isReleased = false;

  constructor(workers: readonly WorkerThread[], share: boolean, inherited: InheritedSockets) {
    this.#workers = workers;
    this.#share = share;
    this.#inherited = inherited;
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

  /** The sockets of all listeners, for a process that takes over. */
  get sockets(): readonly InheritedSocket[] {
    const sockets = this.#open.map(({ listener, address, descriptors, inherited }) => ({
      address,
      ...(listener.port === 0 && { on: listener.on }),
      descriptors: inherited?.descriptors ?? descriptors.filter(descriptor => descriptor !== undefined),
      isKept: inherited?.isKept ?? false,
    }));
    return sockets.filter(({ descriptors }) => descriptors.length > 0);
  }

  /** Whether another process has the listeners open too. Those of a supervisor always are shared. */
  share(isShared: boolean): void {
    this.#isShared = isShared;
    const indexes = this.#open.flatMap(({ index, inherited }) => (inherited?.isKept === true ? [] : [index]));
    for (const worker of this.#workers) worker.send({ kind: 'shared', indexes, isShared });
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
    const places = placesOf(listeners);
    const missing = listeners.filter((_, i) => !isOpen.has(places[i]));
    const isInherited = (listener: Listener) => this.#inherited.has(listener);
    const opened: Opened[] = [];
    try {
      // Those that may fail come first: an engine may accept as soon as a listener is open, and then must serve.
      for (const listener of missing.toSorted((a, b) => Number(isInherited(a)) - Number(isInherited(b)))) {
        const inherited = this.#inherited.take(listener);
        opened.push(
          await (inherited === undefined ? this.#openOne(listener) : this.#adopt(listener, inherited)),
        );
      }
      return opened;
    } catch (error) {
      this.close(opened);
      throw error;
    }
  }

  /** Serves these from now on, some of which were just opened. Returns those to close. */
  serve(listeners: readonly Listener[], opened: readonly Opened[]): readonly Opened[] {
    const known = [...this.#open, ...opened];
    const knownPlaces = placesOf(known.map(({ listener }) => listener));
    const open = placesOf(listeners).flatMap((place, i) => {
      const found = known[knownPlaces.indexOf(place)];
      return found === undefined ? [] : [{ ...found, listener: listeners[i] }];
    });
    this.#open = open;
    for (const { index, listener } of open) this.#names[index] = listener.on;
    return known.filter(({ index }) => !open.some(still => still.index === index));
  }

  close(opened: readonly Opened[]): void {
    this.closeIndexes(opened.map(({ index }) => index));
    for (const { inherited } of opened) if (inherited !== undefined) closeSocket(inherited);
  }

  closeIndexes(indexes: readonly number[]): void {
    for (const worker of this.#workers) worker.send({ kind: 'close', indexes });
  }

  /** This process lets go of its inherited sockets. Call it when no worker needs them again. */
  [Symbol.dispose](): void {
    this.#inherited[Symbol.dispose]();
    if (this.#isReleased) return;
    this.#isReleased = true;
    for (const { inherited } of this.#open) if (inherited !== undefined) closeSocket(inherited);
  }

  /** Opens all listeners in a worker that has restarted. Resolves to the first error. */
  async openIn(worker: WorkerThread): Promise<ListenError | undefined> {
    for (const opened of this.#open) {
      const error = await this.#openWith(worker, opened);
      if (error !== undefined) return new ListenError(opened.listener.on, error);
    }
    return undefined;
  }

  /** Its sockets are closed, and their numbers may mean something else soon. */
  workerDied({ number }: WorkerThread): void {
    for (const { descriptors } of this.#open) descriptors[number] = undefined;
  }

  /** Opens one listener in one worker. Resolves to the error number if it fails; a worker that is gone is no error. */
  async #openWith(
    worker: WorkerThread,
    { index, address, inherited, descriptors }: Opened,
  ): Promise<number | undefined> {
    for (const descriptor of inherited === undefined
      ? [undefined]
      : this.#descriptorsFor(worker, inherited)) {
      const open = await worker.open({
        kind: 'open',
        index,
        address: { ...address, ...(descriptor !== undefined && { descriptor }) },
      });
      if (open !== undefined && open.result < 0) return open.result;
      descriptors[worker.number] = open?.descriptor;
    }
    if (this.#isShared || inherited?.isKept === true)
      worker.send({ kind: 'shared', indexes: [index], isShared: true });
    return undefined;
  }

  /** With more workers than sockets some share one; with fewer each has several, so that none is left out. */
  #descriptorsFor(worker: WorkerThread, { descriptors }: InheritedSocket): readonly number[] {
    const workers = this.#workers.length;
    if (workers >= descriptors.length) return [descriptors[worker.number % descriptors.length]];
    return descriptors.filter((_, i) => i % workers === worker.number);
  }

  async #adopt(listener: Listener, inherited: InheritedSocket): Promise<Opened> {
    const opened: Opened = {
      index: this.reserve(listener.on),
      listener,
      address: inherited.address,
      descriptors: [],
      inherited,
    };
    const results = await Promise.all(this.#workers.map(worker => this.#openWith(worker, opened)));
    const error = results.find(result => result !== undefined);
    if (error === undefined) return opened;
    this.close([opened]);
    throw new ListenError(listener.on, error);
  }

  async #openOne(listener: Listener): Promise<Opened> {
    for (let tries = 1; ; tries++) {
      const index = this.reserve(listener.on);
      const address = await probeListener(listener, this.#hasPort(listener.port));
      const opened: Opened = { index, listener, address, descriptors: [], inherited: undefined };
      const results = await Promise.all(this.#workers.map(worker => this.#openWith(worker, opened)));
      const error = results.find(result => result !== undefined);
      if (error === undefined) return opened;
      this.closeIndexes([index]);
      if (listener.port !== 0 || error !== IN_USE || tries === FREE_PORT_TRIES)
        throw new ListenError(listener.on, error);
    }
  }

  /** Whether we already listen on that port, on another address or in another spelling. */
  #hasPort(port: number): boolean {
    if (port === 0 || !this.#share) return false;
    return this.#inherited.hasPort(port) || this.#open.some(({ address }) => address.port === port);
  }
}

/** Keys that identify each listener, also across an edit. */
export function placesOf(listeners: readonly Listener[]): string[] {
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
