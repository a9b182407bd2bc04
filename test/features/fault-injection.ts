// Loaded first in every thread of a gateway (`--import`, see fault.test.ts): injects exceptions that our own code
// does not throw. The client's bytes select them: a host such as `fault-read.test`, or a marker such as `@@write@@`
// from the client or its backend, marks the handle it is read from; the call of that name then throws once for it.

import { EpollReactor } from '../../src/gateway/io/epoll-reactor.ts';
import { NetReactor } from '../../src/gateway/io/net-reactor.ts';
import type { SocketAddress } from '../../src/gateway/io/reactor.ts';
import { RecordWriter } from '../../src/gateway/shared/record-ring.ts';
import type { Rows } from '../../src/gateway/shared/rows.ts';
import { BucketPages } from '../../src/gateway/shared/shared-memory.ts';
import { Table } from '../../src/gateway/table/table.ts';
import { FAULTY_BACKEND, FAULTY_PEER } from './fault-marks.ts';

const MARK = /fault-([a-z-]+)\.test|@@([a-z-]+)@@/;

class InjectedFault extends Error {
  constructor(where: string) {
    super(`injected: ${where}`);
  }
}

function injectInto(reactor: typeof EpollReactor | typeof NetReactor): void {
  const { prototype } = reactor;
  const marks = new Map<number, string>();
  const { read, write, connect, peerAddress, close, reset } = prototype;
  const throwIfMarked = (handle: number, name: string) => {
    if (marks.get(handle) !== name) return;
    marks.delete(handle);
    throw new InjectedFault(name);
  };
  for (const name of ['localAddress', 'keepAlive', 'shutdown'] as const) {
    const original = prototype[name] as (...args: unknown[]) => unknown;
    Object.assign(prototype, {
      [name](this: unknown, handle: number, ...args: unknown[]) {
        throwIfMarked(handle, name.toLowerCase());
        return original.call(this, handle, ...args);
      },
    });
  }
  prototype.read = function (this: EpollReactor & NetReactor, handle, into, from, to) {
    const count = read.call(this, handle, into, from, to);
    const found =
      count > 0
        ? MARK.exec(Buffer.from(into.buffer, into.byteOffset + from, count).toString('latin1'))
        : null;
    if (found !== null) marks.set(handle, found[1] ?? found[2]);
    throwIfMarked(handle, 'read');
    return count;
  };
  prototype.write = function (this: EpollReactor & NetReactor, handle, bytes, from, to) {
    throwIfMarked(handle, 'write');
    if (Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).includes('@@written@@'))
      throw new InjectedFault('written');
    return write.call(this, handle, bytes, from, to);
  };
  prototype.connect = function (this: EpollReactor & NetReactor, address: SocketAddress) {
    if (isAddress(address.address, 0, FAULTY_BACKEND)) throw new InjectedFault('connect');
    return connect.call(this, address);
  };
  prototype.peerAddress = function (this: EpollReactor & NetReactor, handle, into, at) {
    const port = peerAddress.call(this, handle, into, at);
    if (isAddress(into, at, FAULTY_PEER)) throw new InjectedFault('peerAddress');
    return port;
  };
  prototype.close = function (this: EpollReactor & NetReactor, handle) {
    throwIfMarked(handle, 'close');
    marks.delete(handle);
    return close.call(this, handle);
  };
  prototype.reset = function (this: EpollReactor & NetReactor, handle) {
    throwIfMarked(handle, 'reset');
    marks.delete(handle);
    return reset.call(this, handle);
  };
}

function isAddress(bytes: Uint8Array, at: number, text: string): boolean {
  return text.split('.').every((part, index) => bytes[at + 12 + index] === Number(part));
}

injectInto(EpollReactor);
injectInto(NetReactor);

const { routesByHost } = Table.prototype;
Table.prototype.routesByHost = function (host) {
  if (host === 'fault-route.test') throw new InjectedFault('routesByHost');
  return routesByHost.call(this, host);
};

BucketPages.prototype.take = () => {
  throw new InjectedFault('take');
};

const writeRecord = RecordWriter.prototype.write;
RecordWriter.prototype.write = function (rows: Rows, client, ...rest) {
  if (rows.host[client] === 'fault-record.test') throw new InjectedFault('record');
  writeRecord.call(this, rows, client, ...rest);
};
