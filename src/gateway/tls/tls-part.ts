// The TLS part: whatever needs TLS itself, behind the layer-4 front. The front hands connections over on a unix socket;
// here they enter a tunnel, leave one, or have their TLS opened and made anew. One TLS thread has one of these. Why a
// connection did not come about goes back to the front as a verdict (verdicts.ts).

import { createServer, type Server, type Socket } from 'node:net';
import { mapIp } from '../../wire/ip-address.ts';
import { type Endpoint, MAX_PROXY_HEADER, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { reasonIndex } from '../account.ts';
import type { CloseReason } from '../close-reason.ts';
import type { Settings } from '../data-path.ts';
import { type HandOver, readHandOver } from '../hand-over.ts';
import type { Verdicts } from '../verdicts.ts';
import { endTunnel, TunnelContexts } from './end-tunnel.ts';
import { enterTunnel } from './enter-tunnel.ts';
import { terminate } from './terminate.ts';
import type { TlsConfig } from './tls-config.ts';

/** How often it is looked for clients that the front has let go of. */
const LOOK_MS = 250;

/** A connection that the front has handed over. */
export interface TlsConnection {
  readonly socket: Socket;
  readonly told: HandOver;
  readonly source: Endpoint;
  readonly destination: Endpoint;
}

export interface TlsPartOptions {
  /** By worker. */
  readonly verdicts: readonly Verdicts[];
  readonly settings: Settings;
  /** Something that a person should know. */
  readonly onTrouble: (what: string, why: string) => void;
}

export class TlsPart {
  settings: Settings;
  /** Where connections come back to, by worker. */
  fronts: readonly string[] = [];
  readonly #verdicts: readonly Verdicts[];
  readonly #onTrouble: (what: string, why: string) => void;
  readonly #connections = new Map<Socket, TlsConnection>();
  readonly #front: Server;
  readonly #look: NodeJS.Timeout;
  #config: TlsConfig | undefined;
  #contexts: TunnelContexts | undefined;
  #turn = 0;

  constructor(options: TlsPartOptions) {
    this.settings = options.settings;
    this.#verdicts = options.verdicts;
    this.#onTrouble = options.onTrouble;
    this.#front = createServer({ allowHalfOpen: true }, socket => this.#accept(socket));
    this.#look = setInterval(() => this.#lookAround(), LOOK_MS);
  }

  async listen(path: string): Promise<void> {
    this.#front.listen({ path, backlog: 4096 });
    await new Promise<void>((resolve, reject) => {
      this.#front.once('listening', resolve);
      this.#front.once('error', reject);
    });
  }

  /** Open connections go on as they are. */
  configure(config: TlsConfig): void {
    this.#config = config;
    this.#contexts = config.kind === 'tunnel-end' ? new TunnelContexts(config) : undefined;
  }

  stop(): void {
    clearInterval(this.#look);
    this.#front.close();
    for (const socket of this.#connections.keys()) socket.destroy();
  }

  /** The workers take turns. */
  nextFront(): string | undefined {
    return this.fronts[this.#turn++ % this.fronts.length];
  }

  trouble(what: string, why: string): void {
    this.#onTrouble(what, why);
  }

  /** The other side is reached. */
  reached({ told }: TlsConnection, dialMs: number): void {
    this.#say(told, dialMs, undefined);
  }

  /** It did not come about: the front tells the reason. */
  refuse(connection: TlsConnection, reason: CloseReason): void {
    this.#say(connection.told, -1, reason);
    connection.socket.destroy();
  }

  #say({ worker, handle, generation }: HandOver, dialMs: number, reason: CloseReason | undefined): void {
    this.#verdicts[worker]?.say(handle, generation, {
      slot: 0,
      backendSlot: 0,
      dialMs,
      reason: reason === undefined ? -1 : reasonIndex[reason],
      isBroken: false,
      isEnding: false,
    });
  }

  /** The front's header comes first, then the client's bytes. */
  #accept(socket: Socket): void {
    let held: Buffer = Buffer.alloc(0);
    socket.on('error', () => socket.destroy());
    const onData = (chunk: Buffer) => {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      const header = parseProxyHeader(held, 0, held.length);
      if (header.kind === 'incomplete' && held.length < MAX_PROXY_HEADER) return;
      const told = header.kind === 'found' ? readHandOver(header.value) : undefined;
      if (header.kind !== 'found' || told === undefined || header.value.source === undefined) {
        socket.destroy();
        return;
      }
      const { source, destination = source, end } = header.value;
      socket.off('data', onData);
      socket.pause();
      if (held.length > end) socket.unshift(held.subarray(end));
      const connection = { socket, told, source: mapped(source), destination: mapped(destination) };
      this.#connections.set(socket, connection);
      socket.once('close', () => this.#connections.delete(socket));
      this.#serve(connection);
    };
    socket.on('data', onData);
  }

  #serve(connection: TlsConnection): void {
    const config = this.#config;
    switch (config?.kind) {
      case 'tunnel':
        return enterTunnel(this, connection, config);
      case 'terminate':
        return terminate(this, connection, config);
      case 'tunnel-end':
        if (this.#contexts !== undefined) return endTunnel(this, connection, this.#contexts);
        break;
      default:
    }
    this.refuse(connection, 'no-backend');
  }

  #lookAround(): void {
    for (const { socket, told } of this.#connections.values()) {
      if (this.#verdicts[told.worker]?.isCurrent(told.handle, told.generation) !== true) socket.destroy();
    }
  }
}

function mapped({ address, port }: Endpoint): Endpoint {
  return { address: mapIp(address), port };
}
