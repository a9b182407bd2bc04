// Like fault-injection.ts, for the protocol threads and the control thread: the content of a request, response or
// stream selects what throws.

import { ClientRequest, IncomingMessage, OutgoingMessage, ServerResponse } from 'node:http';
import { EventStreams } from '../../src/admin/event-streams.ts';
import { GatewayEvents } from '../../src/admin/gateway-events.ts';
import { AbuseBudget } from '../../src/gateway/http/abuse-budget.ts';
import { KeptConnection } from '../../src/gateway/http/kept-connections.ts';
import { RequestCounters } from '../../src/gateway/shared/shared-memory.ts';
import { Verdicts } from '../../src/gateway/shared/verdicts.ts';
import { Table } from '../../src/gateway/table/table.ts';
import { TunnelContexts } from '../../src/gateway/tls/end-tunnel.ts';
import { TlsThread } from '../../src/gateway/tls/tls-thread.ts';
import { FAULTY_STATUS } from './fault-marks.ts';

/** Number of control frames of an HTTP/2 connection, SETTINGS included, at which the next PING throws. */
const FAULTY_PING = 3;

function injected(where: string): Error {
  return new Error(`injected: ${where}`);
}

function has(chunk: unknown, word: string): boolean {
  return (typeof chunk === 'string' || Buffer.isBuffer(chunk)) && chunk.includes(word);
}

const { httpRoute } = Table.prototype;
let lookedAt = 0;
Table.prototype.httpRoute = function (host) {
  if (host === 'fault-arrived.test') throw injected('httpRoute');
  const route = httpRoute.call(this, host);
  if (host === 'fault-look.test') lookedAt = route?.slot ?? 0;
  return route;
};

const { ask } = KeptConnection.prototype;
KeptConnection.prototype.ask = function (method, text, asker) {
  if (text.includes('Host: fault-ask.test')) throw injected('ask');
  ask.call(this, method, text, asker);
};

type Write = typeof ServerResponse.prototype.write;
const { write, end, detachSocket } = ServerResponse.prototype;
ServerResponse.prototype.write = function (this: ServerResponse, chunk: unknown, ...rest: unknown[]) {
  if (has(chunk, '@@data@@')) throw injected('write');
  return Reflect.apply(write, this, [chunk, ...rest]) as boolean;
} as Write;
ServerResponse.prototype.end = function (this: ServerResponse, chunk: unknown, ...rest: unknown[]) {
  if (has(chunk, '@@end@@')) throw injected('end');
  return Reflect.apply(end, this, [chunk, ...rest]) as ServerResponse;
} as typeof ServerResponse.prototype.end;
ServerResponse.prototype.detachSocket = function (socket) {
  if (this.req.url === '/fault-splice') {
    this.req.url = '/';
    throw injected('detachSocket');
  }
  detachSocket.call(this, socket);
};

const { flushHeaders, addTrailers } = OutgoingMessage.prototype;
OutgoingMessage.prototype.flushHeaders = function () {
  if ((this as { req?: IncomingMessage }).req?.url === '/fault-flush') throw injected('flushHeaders');
  flushHeaders.call(this);
};
OutgoingMessage.prototype.addTrailers = function (trailers) {
  if ((this as { path?: string }).path === '/fault-trailers') throw injected('addTrailers');
  addTrailers.call(this, trailers);
};

const { pipe } = IncomingMessage.prototype;
IncomingMessage.prototype.pipe = function (this: IncomingMessage, target, options) {
  if (this.headers['x-fault'] === 'pipe') throw injected('pipe');
  return pipe.call(this, target, options) as typeof target;
};

const { add } = RequestCounters.prototype;
RequestCounters.prototype.add = function (slot, status) {
  if (status === FAULTY_STATUS) throw injected('count');
  add.call(this, slot, status);
};

/** Looking up the connection whose request was for that route throws. */
const { say, isCurrent, ending } = Verdicts.prototype;
let looked = '';
Verdicts.prototype.say = function (handle, generation, said) {
  if (lookedAt !== 0 && said.slot === lookedAt && said.reason < 0) looked = `${handle} ${generation}`;
  say.call(this, handle, generation, said);
};
Verdicts.prototype.isCurrent = function (handle, generation) {
  if (looked !== `${handle} ${generation}`) return isCurrent.call(this, handle, generation);
  looked = '';
  lookedAt = 0;
  throw injected('isCurrent');
};

/** The second stream of a thread. */
const streams = new Set<string>();
let isStruck = false;
Verdicts.prototype.ending = function (handle, generation) {
  const stream = `${handle} ${generation}`;
  streams.add(stream);
  if (isStruck || [...streams][1] !== stream) return ending.call(this, handle, generation);
  isStruck = true;
  throw injected('standing');
};

const { take } = AbuseBudget.prototype;
const taken = new WeakMap<AbuseBudget, number>();
AbuseBudget.prototype.take = function (now) {
  const count = (taken.get(this) ?? 0) + 1;
  taken.set(this, count);
  if (count === FAULTY_PING) throw injected('patience');
  return take.call(this, now);
};

const { find } = TunnelContexts.prototype;
TunnelContexts.prototype.find = function (name) {
  if (name === 'fault.tunnel.test') throw injected('certificate');
  return find.call(this, name);
};

let isTlsStruck = false;
const { isBroken } = TlsThread.prototype;
TlsThread.prototype.isBroken = function (connection) {
  if (isTlsStruck) return isBroken.call(this, connection);
  isTlsStruck = true;
  throw injected('isBroken');
};

/** An event client, by its user agent. */
const { open } = EventStreams.prototype;
EventStreams.prototype.open = function (response, more) {
  const agent = response.req.headers['user-agent'];
  if (agent === 'fault-open') throw injected('open');
  const isOpen = open.call(this, response, more);
  if (agent === 'fault-write') {
    response.write = () => {
      throw injected('event');
    };
  }
  return isOpen;
};

/** Records that the control thread fails to handle. */
const { ended } = GatewayEvents.prototype;
GatewayEvents.prototype.ended = function (record) {
  if (record.host === 'fault-told.test') throw injected('ended');
  ended.call(this, record);
};

/** A health check. */
const endRequest = ClientRequest.prototype.end;
ClientRequest.prototype.end = function (this: ClientRequest, ...args: unknown[]) {
  if (this.path === '/fault-check') throw injected('check');
  return Reflect.apply(endRequest, this, args) as ClientRequest;
} as typeof ClientRequest.prototype.end;
