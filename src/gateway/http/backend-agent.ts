// Dials HTTP backends: tries a backend's addresses in turn, each with its share of the time. BackendAgent is the
// node:http Agent for requests that need a connection of their own; kept-connections.ts has the shared ones.

import type { ClientRequestArgs } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { formatIp } from '../../wire/ip-address.ts';
import { type FaultOwner, guard } from '../guard.ts';
import { descriptorOf, reactorErrorOf } from '../io/net-reactor.ts';
import { type DialFailure, failureOf } from '../stages/dial-failure.ts';
import type { TableBackend } from '../table/table.ts';
import { http } from './node-http.ts';

/** A request, and how to open its connection. */
export interface BackendRequest extends ClientRequestArgs {
  readonly backend: TableBackend;
  readonly connectMs: number;
  readonly keepaliveMs: number | undefined;
  /** Descriptors from this number on are reserved: see open-files.ts. */
  readonly clientFiles: number;
  /** The PROXY header to send first, if any. */
  readonly header: Uint8Array | undefined;
  /** The client connection that we dial for. */
  readonly owner: FaultOwner;
}

type Callback = (error: Error | null, socket?: Socket) => void;

export class DialError extends Error {
  readonly code = 'ERR_DIAL';
  readonly failure: DialFailure;

  constructor(failure: DialFailure, cause?: Error) {
    super('Cannot reach the backend', { cause });
    this.failure = failure;
  }
}

export class BackendAgent extends http.Agent {
  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    dialAddresses(options as BackendRequest, callback as Callback);
  }
}

/** The addresses of a name are alternatives that share one attempt. The one that worked is tried first next time. */
export function dialAddresses(request: BackendRequest, callback: Callback): void {
  const { backend, connectMs, header } = request;
  const { addresses } = backend;
  let tried = 0;
  const next = (error: DialError) => {
    if (tried === addresses.length) return callback(error);
    const index = (backend.preferred + tried) % addresses.length;
    const share = connectMs / (addresses.length - tried);
    tried++;
    dialOne(request, index, share, (failure, socket) => {
      if (failure !== undefined) return next(failure);
      backend.preferred = index;
      if (header !== undefined) socket?.write(header);
      callback(null, socket);
    });
  };
  next(new DialError('name-not-found'));
}

function dialOne(
  { backend, keepaliveMs, clientFiles, owner }: BackendRequest,
  index: number,
  timeoutMs: number,
  done: (failure: DialError | undefined, socket?: Socket) => void,
): void {
  const { address, port } = backend.addresses[index];
  const socket = connect({
    host: formatIp(address, 0),
    port,
    noDelay: true,
    ...(keepaliveMs !== undefined && { keepAlive: true, keepAliveInitialDelay: keepaliveMs }),
  });
  const timer = setTimeout(
    guard(owner, () => fail(new DialError('timeout'))),
    timeoutMs,
  );
  const failed = guard(owner, (error: Error) => fail(new DialError(failureOf(reactorErrorOf(error)), error)));
  const fail = (failure: DialError) => {
    clearTimeout(timer);
    socket.destroy();
    done(failure);
  };
  socket.once('error', failed);
  socket.once(
    'connect',
    guard(owner, () => {
      if (descriptorOf(socket) >= clientFiles) return fail(new DialError('exhausted'));
      clearTimeout(timer);
      socket.off('error', failed);
      // For a moment between two requests nobody else handles errors, and an unhandled one would end the thread.
      socket.on('error', () => {});
      done(undefined, socket);
    }),
  );
}
