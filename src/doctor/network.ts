// The port through which the doctor reaches the network. Every call ends within a bounded time and never rejects: a
// failure is what the doctor is there for. node-network.ts is the real one; tests bring their own.

export interface Address {
  /** An IP address, without brackets. */
  readonly host: string;
  readonly port: number;
}

export interface Network {
  dial(at: Address): Promise<Dialled>;
  /** One TLS handshake, whose certificate is not verified: the doctor judges it. */
  shake(request: ShakeRequest): Promise<Shaken>;
  /** One GET over HTTPS without credentials, since the certificate is not verified. */
  ask(request: AskRequest): Promise<Asked>;
}

export type Dialled =
  /** `local`: the address that this machine used. */
  { readonly ok: true; readonly local: string } | NoConnection;

export interface NoConnection {
  readonly ok: false;
  readonly why: 'refused' | 'timeout' | 'unreachable' | 'reset';
  readonly text: string;
}

export interface ShakeRequest {
  readonly at: Address;
  /** Absent: no SNI. */
  readonly serverName?: string;
  readonly alpn: readonly string[];
  /** PEM: an authority that the certificate should be from. */
  readonly ca?: string | Buffer;
  /** Bytes that precede the handshake, such as a PROXY header, for the two ends of the connection. */
  readonly before?: (local: Address, remote: Address) => Uint8Array;
  /** Sends the hello in two segments, the second a moment later. */
  readonly split?: boolean;
  /** Begins HTTP/2 after the handshake, and reports how the server answers. */
  readonly http2?: boolean;
}

export type Shaken =
  | {
      readonly ok: true;
      /** The protocol that the server chose. */
      readonly alpn: string | undefined;
      readonly certificate: ServedCertificate;
      /** Why it is not from `ca`. */
      readonly untrusted?: string;
      /** Only with `http2`. */
      readonly answer?: Http2Answer;
    }
  | (Omit<NoConnection, 'why'> & {
      readonly why: NoConnection['why'] | 'alert' | 'closed' | 'not-tls';
      /** Its number (RFC 8446 6). */
      readonly alert?: number;
    });

/** `settings`: as HTTP/2 begins. `certificate-wanted`: the server refuses clients without one, so it is alive. */
export type Http2Answer = 'settings' | 'certificate-wanted' | 'other' | 'closed' | 'silent';

export interface ServedCertificate {
  /** Whether clients that dial this name or IP address accept it. */
  covers(nameOrAddress: string): boolean;
  /** DNS names in it, in lower case. */
  readonly names: readonly string[];
  /** In ms since 1970. NaN if it cannot be read. */
  readonly notBefore: number;
  readonly notAfter: number;
  /** SHA-256. */
  readonly fingerprint: string;
}

export interface AskRequest {
  readonly at: Address;
  readonly serverName?: string;
  readonly path: string;
}

export type Asked =
  | {
      readonly ok: true;
      readonly status: number;
      /** From the Date header, in ms since 1970; NaN without one. */
      readonly date: number;
      /** Its beginning. */
      readonly body: string;
    }
  | { readonly ok: false; readonly text: string };
