// Listening sockets that are open before the gateway starts: those of the process that it replaces, or of a supervisor.
// A listener that finds its own among them uses it instead of opening one.

import { closeSync } from 'node:fs';
import { parseIp } from '../../wire/ip-address.ts';
import type { SocketAddress } from '../io/reactor.ts';
import type { ListenPlace } from './probe-listener.ts';

/** One listener; it has several descriptors if the workers of an old process had one each. */
export interface InheritedSocket {
  readonly address: SocketAddress;
  /** For a port that was 0 in the file: the listener as written there. */
  readonly on?: string | undefined;
  readonly descriptors: readonly number[];
  /** A supervisor keeps it open, for whoever starts next. */
  readonly isKept: boolean;
}

export class InheritedSockets implements Disposable {
  readonly #waiting: InheritedSocket[];

  constructor(sockets: readonly InheritedSocket[]) {
    this.#waiting = [...sockets];
  }

  /** The socket of that listener, which is the caller's from now on. */
  take(place: ListenPlace): InheritedSocket | undefined {
    const index = this.#waiting.findIndex(socket => isSame(socket, place));
    return index < 0 ? undefined : this.#waiting.splice(index, 1)[0];
  }

  has(place: ListenPlace): boolean {
    return this.#waiting.some(socket => isSame(socket, place));
  }

  hasPort(port: number): boolean {
    return this.#waiting.some(({ address }) => address.port === port);
  }

  /** Those that no listener has taken. */
  get waiting(): readonly InheritedSocket[] {
    return this.#waiting;
  }

  /** Closes those that no listener has taken. */
  [Symbol.dispose](): void {
    for (const socket of this.#waiting.splice(0)) closeSocket(socket);
  }
}

export function closeSocket({ descriptors }: Pick<InheritedSocket, 'descriptors'>): void {
  for (const descriptor of descriptors) closeSync(descriptor);
}

function isSame({ address, on }: InheritedSocket, place: ListenPlace): boolean {
  if (place.port === 0) return on === place.on;
  if (on !== undefined || address.port !== place.port) return false;
  if (place.host === '') {
    // Without IPv6, dual-stack means IPv4.
    return address.dualStack === true ? isAddress(address, '::') : isAddress(address, '0.0.0.0');
  }
  return (
    address.dualStack !== true && isAddress(address, place.host === 'localhost' ? '127.0.0.1' : place.host)
  );
}

function isAddress({ address }: SocketAddress, host: string): boolean {
  const other = parseIp(host);
  return other !== undefined && Buffer.compare(address, other) === 0;
}
