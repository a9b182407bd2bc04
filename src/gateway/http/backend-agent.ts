// How an HTTP backend is reached: its addresses in turn, each with its share of the time. As node:http's Agent, for
// requests that have a connection of their own; those that share kept ones are in kept-connections.ts.

import { Agent, type ClientRequestArgs } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { formatIp } from '../../wire/ip-address.ts';
import { type FaultOwner, guard } from '../guard.ts';
import { descriptorOf, reactorErrorOf } from '../io/net-reactor.ts';
import { type DialFailure, failureOf } from '../stages/dial-failure.ts';
import type { TableBackend } from '../table/table.ts';

/** What a request says about the connection it needs. */
export interface BackendRequest extends ClientRequestArgs {
  readonly backend: TableBackend;
  readonly connectMs: number;
  readonly keepaliveMs: number | undefined;
  /** Descriptors from this number on are spare: see open-files.ts. */
  readonly clientFiles: number;
  /** A PROXY header to begin with, or nothing. */
  readonly header: Uint8Array | undefined;
  /** On whose behalf it is dialled. */
  readonly owner: FaultOwner;
}

type Callback = (error: Error | null, socket?: Socket) => void;

/** The backend was not reached. */
export class DialError extends Error {
  readonly code = 'ERR_DIAL';
  readonly failure: DialFailure;

  constructor(failure: DialFailure, cause?: Error) {
    super('The backend was not reached', { cause });
    this.failure = failure;
  }
}

export class BackendAgent extends Agent {
  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    dialAddresses(options as BackendRequest, callback as Callback);
  }
}

/** The addresses of a name are alternatives that share one attempt; the one that worked is tried first. */
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
      // Between two requests there is a moment in which nobody else listens, and an error would end the thread.
      socket.on('error', () => {});
      done(undefined, socket);
    }),
  );
}
