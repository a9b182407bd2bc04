// The configuration of TLS of our own: plain data that the control thread sends, in full on each change. Certificates
// and keys are PEM texts; the control thread reads and re-reads the files.

import type { Uplink } from '../../cluster/cluster.ts';

/** The protocol of a tunnel; a router on the way may match on it. */
export const TUNNEL_ALPN = 'causeway/1';

/** The message in the log and the findings when a client used a certificate. */
export const CERTIFICATE_LOST = 'client certificate lost';

export type TlsConfig = TunnelUplink | TerminateUplink | TunnelEnd;

/** Where an agent finds the gateway. */
export interface GatewayPlace {
  /** A name, or an IP literal. */
  readonly host: string;
  /** IP literals, tried in turn. If empty, the addresses that the host resolves to. */
  readonly addresses: readonly string[];
  readonly port: number;
  /** SNI, and the name that the certificate must match. */
  readonly serverName: string;
  /** PEM; the system's CAs by default. */
  readonly ca?: string;
}

/** In an agent: TLS to a tunnel host; inside it, a PROXY v2 header with the id, then the client's own bytes. */
export interface TunnelUplink {
  readonly kind: 'tunnel';
  readonly gateway: GatewayPlace;
  readonly uplink: Uplink;
}

/** In an agent: terminates the client's TLS, and opens a new one to the gateway. */
export interface TerminateUplink {
  readonly kind: 'terminate';
  readonly gateway: GatewayPlace;
  readonly certificate: KeyPair;
}

/** In a gateway: the end of the agents' tunnels. */
export interface TunnelEnd {
  readonly kind: 'tunnel-end';
  /** SNI names, on every listener. */
  readonly hosts: readonly string[];
  /** Each serves the names that it matches; the first also serves names that none matches. */
  readonly certificates: readonly KeyPair[];
}

export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}
