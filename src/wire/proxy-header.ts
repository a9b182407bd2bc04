// The content of a PROXY header of either version.

export interface Endpoint {
  /** 4 or 16 raw bytes. */
  readonly address: Uint8Array;
  readonly port: number;
}

export interface Tlv {
  readonly type: number;
  readonly value: Uint8Array;
}

/** Addresses and values of a parsed header are views of the buffer it was read from: copy what you keep. */
export interface ProxyHeader {
  readonly version: 1 | 2;
  /** `local`: the peer itself is the client (a health check, or UNKNOWN in version 1). */
  readonly command: 'local' | 'proxy';
  readonly family: 'unspec' | 'ipv4' | 'ipv6' | 'unix';
  /** Absent with `local`, `unspec` and `unix`. */
  readonly source: Endpoint | undefined;
  readonly destination: Endpoint | undefined;
  /** All TLVs in the order sent, including repeated types. */
  readonly tlvs: readonly Tlv[];
  /** Index just after the header. */
  readonly end: number;
}
