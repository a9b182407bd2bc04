// The socket on which this process can be replaced, `PID.sock` in runDir. One successor at a time: it gets duplicates of
// the listening sockets, and this process goes on accepting until the successor says that it serves. If the successor
// goes away before, nothing has happened.

import { rename, rm } from 'node:fs/promises';
import * as net from 'node:net';
import { join } from 'node:path';
import { descriptorOf } from '../gateway/io/net-reactor.ts';
import {
  messageText,
  offerOf,
  type Phase,
  type Reply,
  type Request,
  type Sockets,
  sendMessage,
  takeMessages,
} from './messages.ts';
import { sendDescriptors } from './pass-descriptors.ts';

/** How often a watcher hears the number of connections. */
const WATCH_MS = 500;

export interface Replaceable {
  readonly phase: Phase;
  readonly connections: number;
  /** The sockets that a successor gets. They are shared from now on. */
  offer(): Sockets;
  /** The successor has gone away: the sockets are not shared any more. */
  withdraw(): void;
  /** The successor serves: this process stops accepting. */
  replacedBy(pid: number): void;
}

export class ControlSocket implements AsyncDisposable {
  readonly #pid: number;
  readonly #path: string;
  readonly #gateway: Replaceable;
  readonly #server: net.Server;
  readonly #onFault: (error: unknown) => void;
  readonly #connections = new Set<net.Socket>();
  #successor: { readonly socket: net.Socket; readonly pid: number } | undefined;
  #replacedBy: number | undefined;

  private constructor(folder: string, pid: number, gateway: Replaceable, onFault: (error: unknown) => void) {
    this.#pid = pid;
    this.#path = join(folder, `${pid}.sock`);
    this.#gateway = gateway;
    this.#onFault = onFault;
    this.#server = net.createServer(socket => this.#serve(socket));
  }

  static async open(
    folder: string,
    pid: number,
    gateway: Replaceable,
    onFault: (error: unknown) => void,
  ): Promise<ControlSocket> {
    const control = new ControlSocket(folder, pid, gateway, onFault);
    // It gets its name when somebody listens there: a socket on which nobody does is of a process that is gone.
    const unnamed = `${control.#path}.new`;
    await rm(unnamed, { force: true });
    await new Promise<void>((resolve, reject) => {
      control.#server.once('error', reject);
      control.#server.listen(unnamed, () => {
        control.#server.off('error', reject).on('error', onFault);
        resolve();
      });
    });
    await rename(unnamed, control.#path);
    // Whoever waits for this socket keeps nothing alive.
    control.#server.unref();
    return control;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#connections) socket.destroy();
    await rm(this.#path, { force: true });
    await new Promise(resolve => this.#server.close(resolve));
  }

  #serve(socket: net.Socket): void {
    this.#connections.add(socket);
    socket.unref();
    takeMessages<Request>(socket, request => {
      try {
        this.#answer(socket, request);
      } catch (error) {
        this.#onFault(error);
        socket.destroy();
      }
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      this.#connections.delete(socket);
      if (this.#successor?.socket !== socket) return;
      this.#successor = undefined;
      if (this.#replacedBy === undefined) this.#gateway.withdraw();
    });
  }

  #answer(socket: net.Socket, request: Request): void {
    if (request.kind === 'who') {
      sendMessage(socket, { kind: 'gateway', pid: this.#pid, phase: this.#gateway.phase });
    } else if (request.kind === 'take-over') {
      this.#offer(socket, request.pid);
    } else if (request.kind === 'serving') {
      if (this.#successor?.socket !== socket) return void socket.destroy();
      this.#replacedBy = this.#successor.pid;
      this.#gateway.replacedBy(this.#replacedBy);
      sendMessage(socket, { kind: 'replaced' });
    } else if (request.kind === 'watch') {
      this.#watch(socket);
    }
  }

  #offer(socket: net.Socket, pid: number): void {
    const by = this.#replacedBy ?? this.#successor?.pid;
    if (by !== undefined || this.#gateway.phase !== 'serving')
      return sendMessage(socket, { kind: 'busy', by: by ?? this.#pid });
    this.#successor = { socket, pid };
    const { offer, descriptors } = offerOf(this.#gateway.offer());
    const reply: Reply = { kind: 'sockets', pid: this.#pid, ...offer };
    sendDescriptors(descriptorOf(socket), messageText(reply), descriptors);
  }

  #watch(socket: net.Socket): void {
    let last = -1;
    const tell = () => {
      const count = this.#gateway.connections;
      if (count !== last) sendMessage(socket, { kind: 'connections', count });
      last = count;
    };
    tell();
    const timer = setInterval(tell, WATCH_MS).unref();
    socket.on('close', () => clearInterval(timer));
  }
}
