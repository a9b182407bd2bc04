// A TCP proxy that can be cut, for the way to an API server: `await using proxy = await startTcpProxy(port)`.

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  /** How many it has accepted so far. */
  connections(): number;
  /** New connections go to this port of 127.0.0.1. */
  connectTo(port: number): void;
  /** Ends all connections, as a firewall that restarts does. New ones are accepted. */
  cut(): void;
  /** Ends all connections, and new ones at once, until it is called with false. */
  refuse(isRefusing: boolean): void;
}

/** Forwards connections to a port of 127.0.0.1. */
export async function startTcpProxy(port: number): Promise<TcpProxy> {
  let to = port;
  let connections = 0;
  let isRefusing = false;
  const open = new Set<Socket>();
  const server = createServer(socket => {
    if (isRefusing) return void socket.on('error', () => {}).destroy();
    connections++;
    const upstream = connect(to, '127.0.0.1');
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ]) {
      open.add(one);
      one.on('error', () => {});
      one.on('close', () => {
        open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    connectTo(next) {
      to = next;
    },
    cut,
    refuse(next) {
      isRefusing = next;
      if (next) cut();
    },
    async [Symbol.asyncDispose]() {
      server.close();
      cut();
    },
  };
}
