// node:http as the HTTP part needs it: strict, with every header and every time-out, and with all that arrives given to
// one place. It never listens: connections are handed to it.

import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { guard } from '../guard.ts';
import { hasBody } from './forward.ts';

/** The limit of the front's own parser. */
const MAX_HEAD = 16_384;

export interface RequestServerEvents {
  /** With what the client sent behind it, where it is to switch protocols. */
  arrived(request: IncomingMessage, response: ServerResponse, upgradeHead: Buffer | undefined): void;
  /** Whether a wish to switch protocols that comes now can be granted. */
  mayUpgrade(socket: Socket): boolean;
  /** CONNECT is the front's, and only as the first thing that a client says. */
  connect(socket: Socket): void;
  /** What the client says cannot be read on, or takes too long. */
  error(error: NodeJS.ErrnoException, socket: Socket): void;
  /** Our own code threw on behalf of that client. */
  fault(error: unknown, socket: Socket): void;
}

/** `lookMs` is how often it looks for heads that take too long. */
export function createRequestServer(lookMs: number, events: RequestServerEvents): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEAD,
    // A missing Host has its reason, as every refusal.
    requireHostHeader: false,
    requestTimeout: 0,
    connectionsCheckingInterval: lookMs,
    // Otherwise it is a request like any other.
    shouldUpgradeCallback: request => {
      try {
        return events.mayUpgrade(request.socket) && wantsUpgrade(request);
      } catch (error) {
        events.fault(error, request.socket);
        return false;
      }
    },
  });
  // Every header is judged: the head's size is what bounds them. By default those above 2000 vanish.
  server.maxHeadersCount = 0;
  // It never listens by itself, and looks for late heads and idle connections only once it does.
  server.emit('listening');
  // A client may say FIN behind its request and still hear the answer. Not in the documentation.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  /** It serves many clients: the socket says whose fault it is. */
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
  // The backend says whether to continue.
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

/** Whether the parser takes it for a wish to switch, heard or not. */
export function isWish({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && /\bupgrade\b/i.test(headers.connection ?? '');
}

/** node:http makes none for a wish to switch, and does not look after it. */
function upgradeResponse(
  request: IncomingMessage,
  events: Pick<RequestServerEvents, 'fault'>,
): ServerResponse {
  const { socket } = request;
  const response = new ServerResponse(request);
  response.assignSocket(socket);
  response.shouldKeepAlive = false;
  // An answer that does not switch streams as every other.
  const owner = { onFault: (error: unknown) => events.fault(error, socket) };
  socket.on(
    'drain',
    guard(owner, () => response.emit('drain')),
  );
  return response;
}

/**
 * RFC 9110 7.8: HTTP/1.0 has no such thing. Not to h2c: that would carry requests past us. A request with a body is
 * answered as it is.
 */
function wantsUpgrade({ headers, httpVersion }: IncomingMessage): boolean {
  const upgrade = headers.upgrade?.toLowerCase() ?? '';
  return (
    upgrade !== '' &&
    httpVersion === '1.1' &&
    !/\bh2c?\b|\btls\b|\bhttp\b/.test(upgrade) &&
    !hasBody({ headers })
  );
}
