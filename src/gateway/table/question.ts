// What `explain` is asked: a connection as its client would open it.

export const questionProtocols = ['tls', 'http', 'connect'] as const;

export interface Question {
  /** SNI, Host or CONNECT name. */
  readonly host: string;
  readonly from?: string;
  readonly protocol: (typeof questionProtocols)[number];
  /** The id in a PROXY header. */
  readonly id?: string;
  /** A listener's `on`. */
  readonly on?: string;
  /** The destination port: selects the listener with that port, if there is one. */
  readonly port?: number;
}
