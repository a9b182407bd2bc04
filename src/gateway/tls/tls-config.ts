// What the TLS part is to do: plain data that the control thread sends, in full with each change. Certificates and keys
// are PEM texts, read and re-read by the control side.

import type { Uplink } from '../../cluster/cluster.ts';

export type TlsConfig = TunnelUplink | TerminateUplink | TunnelEnd;

/** Where an agent finds the gateway. */
export interface GatewayPlace {
  /** A name, or an IP literal. */
  readonly host: string;
  /** IP literals, tried in turn. None: those that the host resolves to. */
  readonly addresses: readonly string[];
  readonly port: number;
  /** SNI, and what the certificate must be for. */
  readonly serverName: string;
  /** PEM; absent means the system's. */
  readonly ca?: string;
}

/** An agent: TLS to a tunnel host, inside it a PROXY v2 header with the id and the client's own bytes. */
export interface TunnelUplink {
  readonly kind: 'tunnel';
  readonly gateway: GatewayPlace;
  readonly uplink: Uplink;
}

/** An agent: the client's TLS ends here, another goes out. */
export interface TerminateUplink {
  readonly kind: 'terminate';
  readonly gateway: GatewayPlace;
  readonly certificate: KeyPair;
}

/** A gateway: the end of the agents' tunnels. */
export interface TunnelEnd {
  readonly kind: 'tunnel-end';
  /** SNI names, on every listener. */
  readonly hosts: readonly string[];
  /** Each serves the names that it is for; the first also those that none is for. */
  readonly certificates: readonly KeyPair[];
}

export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}
