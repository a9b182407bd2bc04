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
/** Client over HTTP: no request is in progress, or the head of one is being read. */
export const REQUESTING = 5;
/** Client: waits for a thread that takes it. */
export const GIVING = 6;
/** Client: a session of HTTP/2 or TLS has its bytes; each stream within has a row of its own. */
export const SESSION = 7;
/** Client: routed and admitted, no backend yet. */
export const DIALING = 8;
/** Backend: connect under way. */
export const CONNECTING = 9;
/** Backend of an agent: awaiting the gateway's answer to a CONNECT. */
export const GREETING = 10;
/** Either side: an HTTP request goes to the backend, its response to the client. */
export const EXCHANGING = 11;
/** Backend over HTTP: idle, for another request. */
export const KEPT = 12;
/** Either side: bytes flow. */
export const TUNNEL = 13;
/** Client: already counted and answered; draining input before close. */
export const LINGERING = 14;

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

/** `input`: how much more comes from a handle. */
export const OPEN = 0;
/** The reactor reported FIN or a reset: reads continue to the end. */
export const HUNG = 1;
/** It sent FIN, and everything before is read. */
export const ENDED = 2;
/** Likewise, and the other side had not sent FIN yet. */
export const ENDED_FIRST = 3;

/** `failure`: whether a handle still takes bytes. What it sent before is passed on, then the reset. */
export const SOUND = 0;
export const FAILING = 1;
/** A write failed and consumed the error: reads no longer show whether FIN or a reset came first. */
export const UNWRITABLE = 2;
/** It took no bytes for too long. */
export const STALLED = 3;

/** `client`: what is known of a client. */
export const UNKNOWN = 0;
/** The true client is known, and no PROXY header of a balancer will come. */
export const KNOWN = 1;
/** The true client is known from a balancer's PROXY header. */
export const BALANCED = 2;
/** An agent, which has sent its PROXY header. */
export const AGENT = 3;
/** An agent, whose header named the source of the agent's client. */
export const AGENT_WITH_ORIGIN = 4;

/** `flags` */
/** More bytes may be waiting to be read. */
export const MORE = 1 << 0;
/** In the list of handles to resume. */
export const QUEUED = 1 << 1;
/** FIN was sent to it, or will be once the bytes kept for it are written. */
export const SHUT = 1 << 2;
/** Backend: a timer is set to check whether the bytes kept for either side are being taken. */
export const STALL_TIMER = 1 << 3;
/** The connection has lasted, and TCP keepalive is set on its backend's side. */
export const LASTING = 1 << 4;
/** A valid signature has proven the cluster id it names. */
export const PROVEN = 1 << 5;
/** The source has too many connections: refused as soon as the protocol for the refusal is known. */
export const OVER = 1 << 6;
/** Came through an agent's tunnel: `agents` does not apply, and its id must be signed. */
export const TUNNELLED = 1 << 7;
/** A CONNECT stream of HTTP/2: its end before the answer is no farewell. */
export const WITHIN_H2 = 1 << 8;
/** Serves HTTP requests: bytes are counted request by request. */
export const BY_REQUEST = 1 << 9;

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

/** Seven doubles, fourteen 32-bit words, two 16-bit words and the ports, eight bytes and the addresses. */
const ROW_BYTES = 7 * 8 + 14 * 4 + (2 + PLACES) * 2 + 8 + PLACES * ADDRESS;
/** Before the rows: how many of them were ever used. Eight bytes keep the doubles after it aligned. */
const HEADER_BYTES = 8;

type Column = Float64Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;

export class Rows {
  readonly capacity: number;
  readonly #used: Int32Array;
  /** Every column in shared memory, with its elements per row. */
  readonly #columns: { readonly view: Column; readonly each: number }[] = [];
  readonly state: Uint8Array;
  readonly side: Uint8Array;
  readonly counts: Uint8Array;
  readonly input: Uint8Array;
  readonly failure: Uint8Array;
  readonly client: Uint8Array;
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
    const carve = <View extends Column>(
      view: { new (memory: SharedArrayBuffer, at: number, length: number): View; BYTES_PER_ELEMENT: number },
      each = 1,
    ): View => {
      const at = used;
      used += capacity * each * view.BYTES_PER_ELEMENT;
      const column = new view(memory, at, capacity * each);
      this.#columns.push({ view: column, each });
      return column;
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
    this.input = carve(Uint8Array);
    this.failure = carve(Uint8Array);
    this.client = carve(Uint8Array);
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

  /**
   * Continues a connection that was in row `source` of other rows: all of it but its counts, and what is not in shared
   * memory.
   */
  takeOver(from: Rows, source: number, handle: number): void {
    this.clear(handle);
    for (const [index, { view, each }] of this.#columns.entries()) {
      // At no moment may two rows hold the same counts.
      if (view === this.counts || view === this.generation) continue;
      const other = from.#columns[index].view;
      for (let at = 0; at < each; at++) view[handle * each + at] = other[source * each + at];
    }
  }

  copyAddresses(source: number, handle: number): void {
    const at = this.addressAt(source, 0);
    this.addresses.copyWithin(this.addressAt(handle, 0), at, at + PLACES * ADDRESS);
    this.ports.copyWithin(handle * PLACES, source * PLACES, (source + 1) * PLACES);
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
    this.input[handle] = OPEN;
    this.failure[handle] = SOUND;
    this.client[handle] = UNKNOWN;
    this.flags[handle] = 0;
    this.peer[handle] = -1;
    this.protocol[handle] = NO_PROTOCOL;
    this.slot[handle] = 0;
    this.cluster[handle] = 0;
    this.backend[handle] = -1;
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
