// Like fault-injection.ts, for the stream threads and the control thread: the content of a request, response or
// stream selects what throws.

import { ClientRequest } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { EventStreams } from '../../src/admin/event-streams.ts';
import { GatewayEvents } from '../../src/admin/gateway-events.ts';
import { EpollReactor } from '../../src/gateway/io/epoll-reactor.ts';
import { NetReactor } from '../../src/gateway/io/net-reactor.ts';
import { RequestCounters } from '../../src/gateway/shared/shared-memory.ts';
import { AbuseBudget } from '../../src/gateway/streams/abuse-budget.ts';
import { TunnelContexts } from '../../src/gateway/streams/end-tunnel.ts';
import { Table } from '../../src/gateway/table/table.ts';
import { DEADLY_PING, FAULTY_STATUS } from './fault-marks.ts';

/** Number of control frames of an HTTP/2 connection, SETTINGS included, at which the next PING throws. */
const FAULTY_PING = 3;

function injected(where: string): Error {
  return new Error(`injected: ${where}`);
}

const { httpRoute } = Table.prototype;
let isLookedAt = false;
Table.prototype.httpRoute = function (host) {
  if (host === 'fault-arrived.test') throw injected('httpRoute');
  isLookedAt = host === 'fault-look.test';
  return httpRoute.call(this, host);
};

/** Heads and chunks that a worker writes, by what they say. */
const faultyTexts = ['Host: fault-ask.test', 'X-Fault-Trailer'];
/** The size of the chunk "@@data@@ and more". */
const FAULTY_CHUNK = '11\r\n';
const { write } = Buffer.prototype;
Buffer.prototype.write = function (this: Buffer, text: string, ...rest: unknown[]) {
  if (text === FAULTY_CHUNK || faultyTexts.some(faulty => text.includes(faulty))) throw injected('write');
  return Reflect.apply(write, this, [text, ...rest]) as number;
} as typeof write;

/** Heads of responses are copied as bytes. */
const { set } = Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array;
Buffer.prototype.set = function (this: Buffer, source: ArrayLike<number>, at?: number) {
  if (source instanceof Uint8Array && Buffer.prototype.indexOf.call(source, 'X-Fault: head') >= 0)
    throw injected('set');
  Reflect.apply(set, this, [source, at]);
};

const { concat } = Buffer;
Buffer.concat = ((list: readonly Uint8Array[], length?: number) => {
  if (list.some(part => Buffer.from(part.buffer, part.byteOffset, part.length).includes('X-Fault: splice')))
    throw injected('concat');
  return concat(list, length);
}) as typeof concat;

/** After a second, an exchange gets TCP keepalive. */
for (const reactor of [EpollReactor.prototype, NetReactor.prototype]) {
  const { keepAlive } = reactor;
  reactor.keepAlive = function (this: never, handle: number) {
    if (isLookedAt) {
      isLookedAt = false;
      throw injected('keepAlive');
    }
    Reflect.apply(keepAlive, this, [handle]);
  };
}

const { add } = RequestCounters.prototype;
RequestCounters.prototype.add = function (slot, status) {
  if (status === FAULTY_STATUS) throw injected('count');
  add.call(this, slot, status);
};

/** A CONNECT stream. */
const { connectRoute } = Table.prototype;
Table.prototype.connectRoute = function (name) {
  if (name === 'fault-stream') throw injected('connectRoute');
  return connectRoute.call(this, name);
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

/** The first bytes of a connection that is given to a thread. */
const { unshift } = Socket.prototype;
Socket.prototype.unshift = function (this: Socket, chunk: Buffer) {
  if (Buffer.from(chunk).includes(DEADLY_PING)) process.exit(1);
  Reflect.apply(unshift, this, [chunk]);
} as typeof unshift;

/** The first tunnel. */
let isTunnelStruck = false;
const { adopt } = NetReactor.prototype;
NetReactor.prototype.adopt = function (connection, first) {
  if (isTunnelStruck || !('duplex' in connection) || !(connection.duplex instanceof TLSSocket))
    return adopt.call(this, connection, first);
  isTunnelStruck = true;
  throw injected('adopt');
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
