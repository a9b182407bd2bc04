// A connection is a row, not an object: typed arrays indexed by the reactor's handle. A served connection uses two
// rows, one per side; the client's row holds everything about the connection as a whole. Only the worker that owns the
// handles writes here. The memory is shared so that the control thread can list open connections and clean up after a
// dead worker.

/** States of a handle, in the order of a connection's life. */
export const FREE = 0;
/** A listener that is open but does not accept yet. */
export const OPENED = 1;
export const LISTENER = 2;
/** A listener that accepts the remaining connections and then closes. */
export const CLOSING = 3;
/** Client: the destination is not known yet. */
export const IDENTIFYING = 4;
/** Client: routed and admitted, no backend yet. */
export const DIALING = 5;
/** Backend: connect under way. */
export const CONNECTING = 6;
/** Backend of an agent: awaiting the gateway's answer to a CONNECT. */
export const GREETING = 7;
/** Either side: bytes flow. */
export const TUNNEL = 8;
/** Client: already counted and answered; draining input before close. */
export const LINGERING = 9;
/** In the HTTP thread's own rows: a request in progress. */
export const REQUEST = 10;

/** Which side of a connection a handle is. */
export const NO_SIDE = 0;
/** From accept until the connection has ended; not while it lingers. */
export const CLIENT_SIDE = 1;
export const BACKEND_SIDE = 2;

/** `counts`: what the connection is counted in. Each is undone once, when the connection ends or before. */
/** Among the open connections; it has not ended yet. */
export const ALIVE = 1 << 0;
/** As not yet routed. */
export const PENDING = 1 << 1;
/** Per source, as not yet routed. */
export const PENDING_COUNTED = 1 << 2;
/** Per source, for the whole gateway. */
export const COUNTED = 1 << 3;
/** Per source, for its cluster. */
export const SOURCE_COUNTED = 1 << 4;
/** As active in its cluster. */
export const ADMITTED = 1 << 5;
/** As active on its route. */
export const ROUTE_COUNTED = 1 << 6;
/** As active on its backend. */
export const BACKEND_COUNTED = 1 << 7;

/** `flags` of either side of a tunnel. */
/** More bytes may be waiting to be read. */
export const MORE = 1 << 0;
/** In the list of handles to resume. */
export const QUEUED = 1 << 1;
/** The reactor reported FIN or a reset: reads continue to the end. */
export const HUNG = 1 << 2;
/** The peer sent FIN and everything before it was read. */
export const ENDED = 1 << 3;
/** It sent FIN before the other side did. */
export const FIRST_TO_END = 1 << 4;
/** FIN was sent to it, or will be once the bytes kept for it are written. */
export const SHUT = 1 << 5;
/** Reset or failed: the bytes it sent before are still passed on, then the reset. */
export const FAILING = 1 << 6;
/** A write to it failed and consumed the error: reads no longer show whether FIN or a reset came first. */
export const UNWRITABLE = 1 << 7;
/** The reactor closed it because it took no bytes for too long. */
export const STALLED = 1 << 8;
/** Backend: a timer is set to check whether the bytes kept for either side are being taken. */
export const STALL_TIMER = 1 << 9;
/** The tunnel has lasted, and TCP keepalive is set on its backend's side. */
export const LASTING = 1 << 10;
/** `flags` of a client: what is known of it. */
/** The true client is known: the balancer's PROXY header has been read, or none will come. */
export const CLIENT_KNOWN = 1 << 11;
export const BALANCER_HEADER = 1 << 12;
export const AGENT_HEADER = 1 << 13;
/** The agent's header named the source of the agent's client. */
export const HAS_ORIGIN = 1 << 14;
/** A valid signature has proven the cluster id it names. */
export const PROVEN = 1 << 15;
/** The source has too many connections: refused as soon as the protocol for the refusal is known. */
export const OVER = 1 << 16;
/** `flags` of a client: its way through protocol threads. */
/** Handed off to a protocol thread, and counted as such. */
export const HANDED_OFF = 1 << 17;
/** The HTTP thread has a descriptor of its own for this client and serves it; the worker neither reads nor writes. */
export const LENT = 1 << 18;
/** Came through an agent's tunnel: `agents` does not apply, and its id must be signed. */
export const TUNNELLED = 1 << 19;
/**
 * A CONNECT stream of an HTTP/2 connection, sent back by the HTTP thread: verdicts carry its end, since a unix socket
 * has no RST.
 */
export const RETURNED = 1 << 20;
/** An HTTP request that the worker itself has answered: no HTTP thread counts or logs it. */
export const ANSWERED = 1 << 21;

export const protocols = ['', 'tls', 'connect', 'http', 'h2'] as const;
export const NO_PROTOCOL = 0;
export const TLS = 1;
export const CONNECT = 2;
export const HTTP = 3;
export const H2 = 4;

/** Bytes of one address in `addresses`; each row has four. */
const ADDRESS = 16;
export const PEER = 0;
export const CLIENT = 1;
export const ORIGIN = 2;
/** The address the client connected to, from its own point of view. */
export const DESTINATION = 3;
const PLACES = 4;

/** Seven doubles, fifteen 32-bit words, two 16-bit words and the ports, five bytes and the addresses. */
const ROW_BYTES = 7 * 8 + 15 * 4 + (2 + PLACES) * 2 + 5 + PLACES * ADDRESS;
/** Before the rows: how many of them were ever used. Eight bytes keep the doubles after it aligned. */
const HEADER_BYTES = 8;

export class Rows {
  readonly capacity: number;
  readonly #used: Int32Array;
  readonly state: Uint8Array;
  readonly side: Uint8Array;
  readonly counts: Uint8Array;
  readonly flags: Uint32Array;
  /** Changes with each use of the row, so that a message about one connection never applies to the next. */
  readonly generation: Uint32Array;
  /** The other side's handle, or -1. */
  readonly peer: Int32Array;
  /** Index of the listener it came in on, in the worker's list. */
  readonly listener: Int32Array;
  readonly protocol: Uint8Array;
  /** Route slot, 0 while unknown. */
  readonly slot: Int32Array;
  /** Cluster slot, 0 while unknown. */
  readonly cluster: Int32Array;
  /** Index into the route's backends, of the current attempt or the serving backend. */
  readonly backend: Int32Array;
  /** Number of the protocol thread that serves it, or -1. */
  readonly thread: Int32Array;
  /** Slot of that backend in shared memory, 0 when none. */
  readonly backendSlot: Int32Array;
  readonly attempt: Uint16Array;
  /** Index of the backend's address being tried. */
  readonly addressIndex: Uint16Array;
  readonly startedAt: Float64Array;
  readonly dialAt: Float64Array;
  readonly dialMs: Float64Array;
  /** When the last byte passed. */
  readonly activeAt: Float64Array;
  /** When bytes kept for this handle were last taken. */
  readonly keptAt: Float64Array;
  readonly bytesIn: Float64Array;
  readonly bytesOut: Float64Array;
  /** Offset in the held bytes of the first that is not yet parsed. */
  readonly understood: Int32Array;
  /** Number of held bytes needed before the hello is parsed again. */
  readonly needed: Int32Array;
  /**
   * Detail of the close reason, or 0: for `bad-signature` an index into `signatureFaults`, for a failed dial one into
   * `dialFailures`.
   */
  readonly detail: Uint8Array;
  readonly detailSeconds: Int32Array;
  readonly ports: Uint16Array;
  readonly addresses: Uint8Array;
  /** Before the tunnel: the bytes read from this handle so far. */
  readonly held: (Uint8Array | undefined)[] = [];
  readonly heldTo: Int32Array;
  /** Bytes waiting to be written to this handle. */
  readonly kept: (Uint8Array | undefined)[] = [];
  readonly keptFrom: Int32Array;
  readonly keptTo: Int32Array;
  /** The host asked for: SNI, Host or CONNECT name. */
  readonly host: (string | undefined)[] = [];
  readonly clusterId: (string | undefined)[] = [];
  /** A valid signature whose nonce is not spent yet. */
  readonly proof: ({ readonly timeMs: number; readonly nonce: Uint8Array } | undefined)[] = [];

  constructor(memory: SharedArrayBuffer) {
    const capacity = (memory.byteLength - HEADER_BYTES) / ROW_BYTES;
    this.capacity = capacity;
    this.#used = new Int32Array(memory, 0, 1);
    let used = HEADER_BYTES;
    // Widest first, so that each array is aligned.
    const carve = <View>(
      view: { new (memory: SharedArrayBuffer, at: number, length: number): View; BYTES_PER_ELEMENT: number },
      each = 1,
    ): View => {
      const at = used;
      used += capacity * each * view.BYTES_PER_ELEMENT;
      return new view(memory, at, capacity * each);
    };
    this.startedAt = carve(Float64Array);
    this.dialAt = carve(Float64Array);
    this.dialMs = carve(Float64Array);
    this.activeAt = carve(Float64Array);
    this.keptAt = carve(Float64Array);
    this.bytesIn = carve(Float64Array);
    this.bytesOut = carve(Float64Array);
    this.peer = carve(Int32Array);
    this.listener = carve(Int32Array);
    this.slot = carve(Int32Array);
    this.cluster = carve(Int32Array);
    this.backend = carve(Int32Array);
    this.thread = carve(Int32Array);
    this.backendSlot = carve(Int32Array);
    this.understood = carve(Int32Array);
    this.needed = carve(Int32Array);
    this.heldTo = carve(Int32Array);
    this.keptFrom = carve(Int32Array);
    this.keptTo = carve(Int32Array);
    this.detailSeconds = carve(Int32Array);
    this.flags = carve(Uint32Array);
    this.generation = carve(Uint32Array);
    this.attempt = carve(Uint16Array);
    this.addressIndex = carve(Uint16Array);
    this.ports = carve(Uint16Array, PLACES);
    this.state = carve(Uint8Array);
    this.side = carve(Uint8Array);
    this.counts = carve(Uint8Array);
    this.protocol = carve(Uint8Array);
    this.detail = carve(Uint8Array);
    this.addresses = carve(Uint8Array, PLACES * ADDRESS);
  }

  /** Zeroed memory for that many rows; untouched pages cost nothing. */
  static memory(capacity: number): SharedArrayBuffer {
    return new SharedArrayBuffer(HEADER_BYTES + Math.ceil(capacity / 8) * 8 * ROW_BYTES);
  }

  /**
   * One more than the highest handle ever in use. The lowest free handle is assigned first, so a scan up to here costs
   * what the busiest moment needed, not the million rows that the open-file limit may allow.
   */
  get used(): number {
    return this.#used[0];
  }

  /** Where the address of that row and place begins in `addresses`. */
  addressAt(handle: number, place: number): number {
    return (handle * PLACES + place) * ADDRESS;
  }

  portOf(handle: number, place: number): number {
    return this.ports[handle * PLACES + place];
  }

  setPort(handle: number, place: number, port: number): void {
    this.ports[handle * PLACES + place] = port;
  }

  copyAddress(handle: number, from: number, to: number): void {
    const at = this.addressAt(handle, from);
    this.addresses.copyWithin(this.addressAt(handle, to), at, at + ADDRESS);
    this.setPort(handle, to, this.portOf(handle, from));
  }

  /** Clears all addresses, so that the previous connection's are not mistaken for this one's. */
  clearAddresses(handle: number): void {
    const at = this.addressAt(handle, 0);
    this.addresses.fill(0, at, at + PLACES * ADDRESS);
    this.ports.fill(0, handle * PLACES, (handle + 1) * PLACES);
  }

  /** Resets the row for its next use, except for its addresses. */
  clear(handle: number): void {
    if (handle >= this.#used[0]) this.#used[0] = handle + 1;
    this.generation[handle]++;
    this.state[handle] = FREE;
    this.side[handle] = NO_SIDE;
    this.counts[handle] = 0;
    this.flags[handle] = 0;
    this.peer[handle] = -1;
    this.protocol[handle] = NO_PROTOCOL;
    this.slot[handle] = 0;
    this.cluster[handle] = 0;
    this.backend[handle] = -1;
    this.thread[handle] = -1;
    this.backendSlot[handle] = 0;
    this.attempt[handle] = 0;
    this.addressIndex[handle] = 0;
    this.dialAt[handle] = 0;
    this.dialMs[handle] = -1;
    this.bytesIn[handle] = 0;
    this.bytesOut[handle] = 0;
    this.understood[handle] = 0;
    this.needed[handle] = 0;
    this.detail[handle] = 0;
    this.detailSeconds[handle] = 0;
    this.held[handle] = undefined;
    this.heldTo[handle] = 0;
    this.kept[handle] = undefined;
    this.keptFrom[handle] = 0;
    this.keptTo[handle] = 0;
    this.host[handle] = undefined;
    this.clusterId[handle] = undefined;
    this.proof[handle] = undefined;
  }
}
