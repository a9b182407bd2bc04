// The sockets of the DNS server: UDP and TCP on each of its addresses, all with the same port. Addresses of the machine
// that come and go, such as a virtual one that moves between machines, are followed.

import type { Socket } from 'node:dgram';
import type { Server } from 'node:net';
import { formatHostPort } from '../../config/address.ts';
import type { ListenAddress } from '../../config/config.ts';
import { ownAddresses } from './own-addresses.ts';
import { openTcp, TcpClients } from './tcp-endpoint.ts';
import { openUdp, type Serving } from './udp-endpoint.ts';

/** A virtual address that has moved here answers after this time. */
const RESCAN_MS = 2000;
/** With port 0: how often another free port is tried, since one may be free over UDP and taken over TCP. */
const PORT_TRIES = 20;

export interface DnsEndpointsOptions {
  readonly on: ListenAddress;
  readonly isShared: boolean;
  readonly isTaken: boolean;
  readonly onTrouble: (address: string, error: Error) => void;
}

interface Endpoint {
  readonly udp: Socket;
  readonly tcp: Server;
}

export class DnsEndpoints implements Disposable {
  readonly #options: DnsEndpointsOptions;
  readonly #serving: Serving;
  readonly #clients = new TcpClients();
  readonly #open = new Map<string, Endpoint>();
  /** Addresses that could not be opened: reported once. */
  readonly #failed = new Set<string>();
  #port = 0;
  #rescan: NodeJS.Timeout | undefined;
  #isClosed = false;

  private constructor(options: DnsEndpointsOptions, serving: Serving) {
    this.#options = options;
    this.#serving = serving;
  }

  /** Rejects if an address cannot be opened. */
  static async open(options: DnsEndpointsOptions, serving: Serving): Promise<DnsEndpoints> {
    const endpoints = new DnsEndpoints(options, serving);
    try {
      await endpoints.#openAll();
      return endpoints;
    } catch (error) {
      endpoints[Symbol.dispose]();
      throw error;
    }
  }

  /** As `address:port`. */
  get addresses(): readonly string[] {
    return [...this.#open.keys()].map(address => formatHostPort(address, this.#port));
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    clearTimeout(this.#rescan);
    for (const address of this.#open.keys()) this.#close(address);
    this.#clients.closeAll();
  }

  async #openAll(): Promise<void> {
    const { on } = this.#options;
    for (let tries = 1; ; tries++) {
      this.#port = on.port;
      try {
        for (const address of ownAddresses(on)) await this.#openFirst(address);
        if (this.#open.size > 0) break;
        throw Object.assign(new Error('This machine has no address'), { code: 'EADDRNOTAVAIL' });
      } catch (error) {
        const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
        if (on.port !== 0 || !isTaken || tries >= PORT_TRIES) throw error;
        for (const address of this.#open.keys()) this.#close(address);
      }
    }
    if (this.#isFollowed) this.#rescan = setTimeout(() => void this.#scan(), RESCAN_MS);
  }

  get #isFollowed(): boolean {
    return ['', '0.0.0.0', '::'].includes(this.#options.on.host);
  }

  /** An IPv6 address that is new cannot be used before it is known to be unique: a later scan opens it. */
  async #openFirst(address: string): Promise<void> {
    try {
      await this.#openOne(address);
    } catch (error) {
      const isNew = (error as NodeJS.ErrnoException).code === 'EADDRNOTAVAIL';
      if (!this.#isFollowed || !isNew) throw error;
    }
  }

  async #openOne(address: string): Promise<void> {
    const { isShared, isTaken } = this.#options;
    // With SO_REUSEPORT another process of this user would not be noticed: so without it first.
    if (isShared && !isTaken) closeEndpoint(await this.#openWith(address, false));
    const endpoint = await this.#openWith(address, isShared);
    if (this.#isClosed) closeEndpoint(endpoint);
    else this.#open.set(address, endpoint);
  }

  async #openWith(address: string, reusePort: boolean): Promise<Endpoint> {
    const udp = await openUdp({ address, port: this.#port, reusePort }, this.#serving);
    this.#port = udp.address().port;
    try {
      const tcp = await openTcp({ address, port: this.#port, reusePort }, this.#serving, this.#clients);
      return { udp, tcp };
    } catch (error) {
      udp.close();
      throw error;
    }
  }

  async #scan(): Promise<void> {
    const wanted = ownAddresses(this.#options.on);
    for (const address of this.#open.keys()) if (!wanted.includes(address)) this.#close(address);
    for (const address of wanted) {
      if (this.#isClosed || this.#open.has(address)) continue;
      try {
        await this.#openOne(address);
        this.#failed.delete(address);
      } catch (error) {
        // The next scan tries again.
        if (!this.#failed.has(address)) this.#options.onTrouble(address, error as Error);
        this.#failed.add(address);
      }
    }
    if (!this.#isClosed) this.#rescan = setTimeout(() => void this.#scan(), RESCAN_MS);
  }

  #close(address: string): void {
    const endpoint = this.#open.get(address);
    this.#open.delete(address);
    if (endpoint !== undefined) closeEndpoint(endpoint);
  }
}

function closeEndpoint({ udp, tcp }: Endpoint): void {
  udp.close();
  tcp.close();
}
