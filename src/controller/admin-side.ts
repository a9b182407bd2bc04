// The admin server of a running gateway: from its settings in the file to its listening socket, which it may inherit and
// pass on.

import type { Logger } from 'pino';
import type { AdminView } from '../admin/admin-api.ts';
import { AdminServer } from '../admin/admin-server.ts';
import type { Config, ListenAddress } from '../config/config.ts';
import type { InheritedSocket, InheritedSockets } from '../gateway/control/inherited-sockets.ts';
import type { ListenPlace } from '../gateway/control/probe-listener.ts';
import { parseIp } from '../wire/ip-address.ts';
import { adminError, adminOptions } from './admin-options.ts';

export interface AdminSideOptions {
  readonly file: string;
  readonly admin: Config['admin'];
  readonly log: Logger;
  readonly inherited: InheritedSockets;
}

export class AdminSide implements AsyncDisposable {
  readonly #options: AdminSideOptions;
  #server: AdminServer | undefined;

  constructor(options: AdminSideOptions) {
    this.#options = options;
  }

  get url(): string | null {
    return this.#server?.url ?? null;
  }

  /** Whether its socket is open already. */
  get isInherited(): boolean {
    const { admin, inherited } = this.#options;
    return admin.on !== 'off' && inherited.has(placeOf(admin.on));
  }

  /** For a successor. */
  get socket(): InheritedSocket | undefined {
    const { on } = this.#options.admin;
    if (this.#server === undefined || on === 'off') return undefined;
    const { descriptor, address, port } = this.#server.socket;
    return {
      address: { address: parseIp(address) ?? new Uint8Array(16), port, dualStack: address === '::' },
      ...(on.port === 0 && { on: placeOf(on).on }),
      descriptors: [descriptor],
      isKept: false,
    };
  }

  /** Once. Throws as `run` reports it. */
  async start(view: AdminView): Promise<void> {
    const { file, admin, log, inherited } = this.#options;
    const { on } = admin;
    if (on === 'off' || this.#server !== undefined) return;
    const socket = inherited.take(placeOf(on));
    const options = {
      ...adminOptions(file, on, admin, log),
      ...(socket !== undefined && { descriptor: socket.descriptors[0] }),
    };
    try {
      this.#server = await AdminServer.start(options, view);
    } catch (error) {
      throw adminError(file, on, error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await server?.[Symbol.asyncDispose]();
  }
}

/** Unlike those of listeners, its name has a word in front: both may be `127.0.0.1:0`. */
function placeOf({ host, port }: ListenAddress): ListenPlace {
  return { on: `admin ${host}:${port}`, host, port };
}
