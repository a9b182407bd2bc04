// The owner of connections that need Node's own streams: sessions of HTTP/2 and the ends of tunnels, whose streams are
// connections of their own, and agents' uplinks over TLS. All else about them is done by the stages, over NetReactor.

import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import type { CloseReason } from '../close-reason.ts';
import type { NetReactor, Stream } from '../io/net-reactor.ts';
import { CLIENT_SIDE, DESTINATION, DIALING, type Rows, SESSION } from '../shared/rows.ts';
import { acceptStream } from '../stages/accept.ts';
import type { DataPath, Settings, StreamOwner } from '../stages/data-path.ts';
import { dial } from '../stages/dial.ts';
import { endSession, refuse } from '../stages/end.ts';
import type { Gift, Receiver } from '../stages/gift.ts';
import { recordEnd } from '../stages/record-end.ts';
import { endTunnel, TunnelContexts } from './end-tunnel.ts';
import { H2Connect } from './h2-connect.ts';
import type { OpenSession, SessionHost } from './session-host.ts';
import type { TlsConfig } from './tls-config.ts';
import { TlsStream } from './tls-stream.ts';
import { TlsUplinks, type UplinkHooks } from './uplinks.ts';

/** Enough for a round trip to anywhere. */
const LOOK_MS = 2000;
/** How long a client may take to read what a session has sent. */
const LINGER_MS = 30_000;

export class Streams implements Receiver, SessionHost, StreamOwner {
  readonly arrivals: Rows;
  readonly owned: Uint8Array;
  readonly #path: DataPath;
  readonly #io: NetReactor;
  readonly #h2: H2Connect;
  readonly #uplinks: TlsUplinks;
  /** Connections inside tunnels, by handle. */
  readonly #tunnelled = new Map<number, Stream>();
  #tunnelContexts: TunnelContexts | undefined;

  /** `arrivals` and `owned` are of gifts under way to this thread. */
  constructor(path: DataPath, io: NetReactor, arrivals: Rows, owned: Uint8Array, hooks: UplinkHooks) {
    this.arrivals = arrivals;
    this.owned = owned;
    this.#path = path;
    this.#io = io;
    this.#h2 = new H2Connect(this);
    this.#uplinks = new TlsUplinks(path, io, hooks);
    path.streams = this;
    path.receiver = this;
  }

  get settings(): Settings {
    return this.#path.settings;
  }

  /** Open connections are not affected. */
  configure(config: TlsConfig): void {
    if (config.kind === 'tunnel-end') this.#tunnelContexts = new TunnelContexts(config);
    else this.#uplinks.configure(config);
  }

  dialUplink(client: number): void {
    this.#uplinks.dial(client);
  }

  clientSent(client: number): void {
    this.#uplinks.clientSent(client);
  }

  clientEnded(client: number, reason: CloseReason): void {
    this.#uplinks.forget(client);
    const stream = this.#tunnelled.get(client);
    if (stream instanceof TlsStream) stream.reason = reason;
    this.#tunnelled.delete(client);
  }

  drain(): void {
    this.#h2.drain();
  }

  stop(): void {
    this.#uplinks.stop();
  }

  take({ purpose, at, connection, first, host }: Gift): void {
    const { rows } = this.#path;
    if (typeof connection === 'number' && Atomics.exchange(this.owned, connection, 0) === 0) return;
    const socket = typeof connection === 'number' ? openSocket(connection) : connection;
    const bytes = Buffer.from(first.buffer, first.byteOffset, first.length);
    if (purpose !== 'uplink' && bytes.length > 0) socket?.unshift(bytes);
    const handle =
      socket === undefined
        ? -1
        : purpose === 'uplink'
          ? this.#io.adopt(socket, bytes)
          : this.#io.hold(socket);
    if (socket === undefined || handle < 0) {
      socket?.destroy();
      recordEnd(this.arrivals, this.#path.shared, at, 'over-limit', this.#io.now(), this.settings.log);
      return;
    }
    rows.takeOver(this.arrivals, at, handle);
    rows.counts[handle] = this.arrivals.counts[at];
    this.arrivals.counts[at] = 0;
    rows.side[handle] = CLIENT_SIDE;
    rows.host[handle] = host;
    rows.understood[handle] = 0;
    rows.heldTo[handle] = 0;
    this.#path.run(handle, () => this.#serve(purpose, handle, socket));
  }

  /** The worker that gives connections to this thread has died: those that it did not send any more end here. */
  endOrphans(): void {
    const { arrivals, owned } = this;
    for (let at = 0; at < arrivals.used; at++) {
      const isOwned = Atomics.exchange(owned, at, 0) !== 0;
      if (arrivals.counts[at] !== 0)
        recordEnd(arrivals, this.#path.shared, at, 'shutdown', this.#io.now(), this.settings.log);
      if (isOwned) closeSync(at);
    }
  }

  open(client: number, socket: Socket): OpenSession {
    const { rows } = this.#path;
    const generation = rows.generation[client];
    const isOpen = () => rows.generation[client] === generation && rows.state[client] === SESSION;
    return {
      onFault: error => {
        this.#path.contain(error, isOpen() ? client : -1, -1);
      },
      end: reason => {
        if (!isOpen()) return;
        rows.bytesIn[client] += socket.bytesRead;
        rows.bytesOut[client] += socket.bytesWritten;
        endSession(this.#path, client, reason);
        this.#io.leave(client);
        closeInTime(socket);
      },
    };
  }

  accept(client: number, stream: Stream, isTunnelled: boolean, first?: Uint8Array): void {
    const handle = this.#io.adopt(stream, first && Buffer.from(first.buffer, first.byteOffset, first.length));
    if (handle < 0) return stream.close();
    if (isTunnelled) this.#tunnelled.set(handle, stream);
    this.#path.run(handle, () => acceptStream(this.#path, client, handle, isTunnelled));
  }

  #serve(purpose: Gift['purpose'], client: number, socket: Socket): void {
    const { rows } = this.#path;
    if (purpose === 'uplink') {
      rows.state[client] = DIALING;
      const route = this.#path.table.route(rows.slot[client]);
      return route === undefined ? refuse(this.#path, client, 'no-backend') : dial(this.#path, client, route);
    }
    rows.state[client] = SESSION;
    if (rows.portOf(client, DESTINATION) === 0) {
      const port = this.#io.localAddress(client, rows.addresses, rows.addressAt(client, DESTINATION));
      rows.setPort(client, DESTINATION, Math.max(port, 0));
    }
    if (purpose === 'h2') this.#h2.serve(client, socket);
    else if (this.#tunnelContexts === undefined) refuse(this.#path, client, 'no-backend');
    else endTunnel(this, client, socket, this.#tunnelContexts);
  }
}

/**
 * The session closes its socket, but waits for a client that does not close its side: not any longer than the client
 * takes bytes.
 */
function closeInTime(socket: Socket): void {
  let left = LINGER_MS / LOOK_MS;
  const timer = setInterval(() => {
    if (socket.destroyed || socket.writableLength === 0 || --left === 0) {
      clearInterval(timer);
      socket.destroy();
    }
  }, LOOK_MS).unref();
}

/** From here on the descriptor is closed with the socket, also if this thread dies. */
function openSocket(descriptor: number): Socket | undefined {
  try {
    return new Socket({ fd: descriptor, allowHalfOpen: true, manualStart: true } as SocketOptions);
  } catch {
    closeSync(descriptor);
    return undefined;
  }
}

/** `manualStart`: nothing is read before somebody wants it. Not documented. */
type SocketOptions = ConstructorParameters<typeof Socket>[0] & { readonly manualStart: boolean };
