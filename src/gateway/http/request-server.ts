// node:http as the HTTP thread needs it: strict, with all headers and timeouts, and with one handler for every kind of
// request. It never listens: connections are given to it.

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { guard } from '../guard.ts';
import { NEVER_MS } from './check-for-timeouts.ts';
import { hasBody } from './exchange.ts';
import { http } from './node-http.ts';

/** The same as the limit of the worker's parser. */
const MAX_HEAD = 16_384;

export interface RequestServerEvents {
  /** `upgradeHead`: the bytes behind an upgrade request that can be granted. */
  arrived(request: IncomingMessage, response: ServerResponse, upgradeHead: Buffer | undefined): void;
  /** Whether an upgrade request that comes now can be granted. */
  mayUpgrade(socket: Socket): boolean;
  /** A CONNECT: workers serve it, and only as the first request of a connection. */
  connect(socket: Socket): void;
  /** The client's bytes cannot be parsed, or its head takes too long. */
  error(error: NodeJS.ErrnoException, socket: Socket): void;
  /** Our own code threw on behalf of that client. */
  fault(error: unknown, socket: Socket): void;
}

/** It checks for timeouts only where checkForTimeouts() says so. */
export function createRequestServer(events: RequestServerEvents): Server {
  const server = http.createServer({
    maxHeaderSize: MAX_HEAD,
    // We refuse a missing Host ourselves, with a reason.
    requireHostHeader: false,
    requestTimeout: 0,
    connectionsCheckingInterval: NEVER_MS,
    // An upgrade request that is not granted is served like any other request.
    shouldUpgradeCallback: request => {
      try {
        return events.mayUpgrade(request.socket) && isUpgradeAllowed(request);
      } catch (error) {
        events.fault(error, request.socket);
        return false;
      }
    },
  });
  // Every header is judged, and the head's size bounds their number. By default, those after the 2000th are dropped.
  server.maxHeadersCount = 0;
  // node:http keeps a list of its connections only once it listens, which it never does here.
  server.emit('listening');
  // A client may send FIN after its request and still get the response. Not documented.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  /** The server has many clients: the socket tells which one an exception concerns. */
  const safely = (socket: Socket, work: () => void) => {
    try {
      work();
    } catch (error) {
      events.fault(error, socket);
    }
  };
  const arrived = (request: IncomingMessage, response: ServerResponse) =>
    safely(request.socket, () => events.arrived(request, response, undefined));
  server.on('request', arrived);
  // The backend decides whether to continue.
  server.on('checkContinue', arrived);
  server.on('checkExpectation', arrived);
  server.on('upgrade', (request, _, head) =>
    safely(request.socket, () => events.arrived(request, upgradeResponse(request, events), head)),
  );
  server.on('connect', request => safely(request.socket, () => events.connect(request.socket)));
  server.on('clientError', (error, socket) =>
    safely(socket as Socket, () => events.error(error, socket as Socket)),
  );
  return server;
}

/** Whether node:http's parser takes it for an upgrade request, granted or not. */
export function isUpgradeRequest({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && /\bupgrade\b/i.test(headers.connection ?? '');
}

/** node:http creates no response for an upgrade request. */
function upgradeResponse(
  request: IncomingMessage,
  events: Pick<RequestServerEvents, 'fault'>,
): ServerResponse {
  const { socket } = request;
  const response = new http.ServerResponse(request);
  response.assignSocket(socket);
  response.shouldKeepAlive = false;
  // A response that does not switch protocols streams like any other, and needs `drain`.
  const owner = { onFault: (error: unknown) => events.fault(error, socket) };
  socket.on(
    'drain',
    guard(owner, () => response.emit('drain')),
  );
  return response;
}

/**
 * RFC 9110 7.8: not from HTTP/1.0. Not to h2c: that would carry requests past us. A request with a body is served
 * without the upgrade.
 */
function isUpgradeAllowed({ headers, httpVersion }: IncomingMessage): boolean {
  const upgrade = headers.upgrade?.toLowerCase() ?? '';
  return (
    upgrade !== '' &&
    httpVersion === '1.1' &&
    !/\bh2c?\b|\btls\b|\bhttp\b/.test(upgrade) &&
    !hasBody({ headers })
  );
}
