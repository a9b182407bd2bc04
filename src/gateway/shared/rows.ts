// A connection is a row, not an object: typed arrays indexed by the reactor's handle. A served connection uses
// two rows, one per side; what concerns the connection as a whole stands in the client's row.
// Only the worker that owns the handles writes here. The memory is shared so that the control thread can list
// what is open, and put things right when a worker dies.

/** What a handle is in the middle of. */
export const FREE = 0;
export const LISTENER = 1;
/** A listener that is open and not accepted on yet. */
export const OPENED = 7;
/** A listener that takes what is under way and then closes. */
export const CLOSING = 8;
/** Client: not yet known where to. */
export const IDENTIFYING = 2;
/** Client: routed and admitted, no backend yet. */
export const DIALING = 3;
/** Backend: connect under way. */
export const CONNECTING = 4;
/** Either side: bytes flow. */
export const TUNNEL = 5;
/** Client: its reason is counted and its word is said; waiting for it to read that, reading nothing more. */
export const LINGERING = 6;

/** Backend of an agent: the gateway's answer to a CONNECT is awaited. */
export const GREETING = 10;
/** In the HTTP part's own rows: a request in progress. */
export const REQUEST = 9;

/** Flags of either side of a tunnel. */
/** There may be more to read than was read. */
export const MORE = 1;
/** The peer sent FIN and everything before it was read. */
export const ENDED = 2;
/** We sent FIN to it, or will as soon as what is kept for it is written. */
export const SHUT = 4;
/** Reset or failed: what it sent before is still passed on, then the reset. */
export const FAILING = 8;
/** Stands in the list of handles to come back to. */
export const QUEUED = 16;
/** Flags of a client. */
/** Its peer is a balancer: the PROXY header that tells the true client is read, or known not to come. */
export const CLIENT_KNOWN = 32;
export const BALANCER_HEADER = 64;
export const AGENT_HEADER = 128;
/** The source has too many connections: refused as soon as it is known in which protocol to say so. */
export const OVER = 256;
/** Counted among the active ones of its cluster. */
export const ADMITTED = 512;
/** Counted among those not yet routed. */
export const PENDING = 1024;
/** Counted per source for the whole gateway. */
export const COUNTED = 2048;
/** Counted per source among those not yet routed. */
export const PENDING_COUNTED = 8192;
/** The agent's header told where the agent's client came from. */
export const HAS_ORIGIN = 4096;
/** Counted per source for its cluster. */
export const SOURCE_COUNTED = 16384;
/** The reactor told that FIN or a reset has arrived: reads go on to the end. */
export const HUNG = 32768;
/** The tunnel has lasted, and its backend's side has TCP keepalive too. */
export const LASTING = 65536;
/** It sent FIN before the other side did. */
export const FIRST_TO_END = 16777216;
/** Of a backend: the wheel comes back to see whether what is kept, for either side, is taken. */
export const STALL_TIMER = 33554432;
/** The reactor gave it up, as it took nothing for too long. */
export const STALLED = 67108864;
/** A write to it has failed, which takes the error away: reading no longer tells whether FIN or a reset came first. */
export const UNWRITABLE = 131072;
/** Handed over to the HTTP part, and counted there. */
export const HANDED_OFF = 262144;
/** A signature has proven the cluster id that it names. */
export const PROVEN = 524288;
/** Came through an agent's tunnel: `agents` is not asked, and its id must be proven. */
export const TUNNELLED = 1048576;
/**
 * A stream of an HTTP/2 connection that the HTTP part has: its end is told by verdicts, since a unix socket knows no
 * RST.
 */
export const RETURNED = 2097152;
/** It asked over HTTP, and the front itself has answered: no part of ours counts or logs that request. */
export const ANSWERED = 4194304;
/** Its part has a descriptor of its own, and serves the client by itself; the front neither reads nor writes. */
export const LENT = 8388608;

/** Counted among the open connections, and without a reason yet. */
export const ALIVE = 268435456;
/** Counted among the active ones of its backend. */
export const BACKEND_COUNTED = 536870912;
/** Counted among the active ones of its route. */
export const ROUTE_COUNTED = 1073741824;

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
/** Where the client believes to have connected to. */
export const DESTINATION = 3;
const PLACES = 4;

/** Seven doubles, thirteen 32-bit words, two 16-bit words and the ports, three bytes and the addresses. */
const ROW_BYTES = 7 * 8 + 13 * 4 + (2 + PLACES) * 2 + 3 + PLACES * ADDRESS;
/** In front of the rows: how many of them were ever used. Eight bytes keep the doubles behind it aligned. */
const HEADER_BYTES = 8;

export class Rows {
  readonly capacity: number;
  readonly #used: Int32Array;
  readonly state: Uint8Array;
  readonly flags: Uint32Array;
  /** Another number for each use of the row: what was said of one connection never meets the next. */
  readonly generation: Uint32Array;
  /** The other side's handle, or -1. */
  readonly peer: Int32Array;
  /** Which listener it came in by: its index in the worker's list. */
  readonly listener: Int32Array;
  readonly protocol: Uint8Array;
  /** Route slot, 0 while unknown. */
  readonly slot: Int32Array;
  /** Cluster slot, 0 while unknown. */
  readonly cluster: Int32Array;
  /** Index into the route's backends, of the attempt under way or the one that serves. */
  readonly backend: Int32Array;
  /** Slot of that backend in shared memory, 0 when none. */
  readonly backendSlot: Int32Array;
  readonly attempt: Uint16Array;
  /** Which of the backend's addresses is being tried. */
  readonly addressIndex: Uint16Array;
  readonly startedAt: Float64Array;
  readonly dialAt: Float64Array;
  readonly dialMs: Float64Array;
  /** When the last byte passed. */
  readonly activeAt: Float64Array;
  /** Of what is kept for this handle: when some of it was last taken. */
  readonly keptAt: Float64Array;
  readonly bytesIn: Float64Array;
  readonly bytesOut: Float64Array;
  /** Where in the held bytes the part not yet understood begins. */
  readonly understood: Int32Array;
  /** How many held bytes there must be before the hello is looked at again. */
  readonly needed: Int32Array;
  /**
   * More on the close reason, 0 when there is nothing more: for `bad-signature` an index into `signatureFaults`, for a
   * dial that failed one into `dialFailures`.
   */
  readonly detail: Uint8Array;
  readonly detailSeconds: Int32Array;
  readonly ports: Uint16Array;
  readonly addresses: Uint8Array;
  /** Bytes for this handle that wait to be written, or, before the tunnel, those read from the client so far. */
  readonly kept: (Uint8Array | undefined)[] = [];
  readonly keptFrom: Int32Array;
  readonly keptTo: Int32Array;
  /** The host asked for: SNI, Host or CONNECT name. */
  readonly host: (string | undefined)[] = [];
  readonly clusterId: (string | undefined)[] = [];
  /** A signature that is right and not used yet. */
  readonly proof: ({ readonly timeMs: number; readonly nonce: Uint8Array } | undefined)[] = [];

  constructor(memory: SharedArrayBuffer) {
    const capacity = (memory.byteLength - HEADER_BYTES) / ROW_BYTES;
    this.capacity = capacity;
    this.#used = new Int32Array(memory, 0, 1);
    let used = HEADER_BYTES;
    // The widest first, so that each array is aligned.
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
    this.backendSlot = carve(Int32Array);
    this.understood = carve(Int32Array);
    this.needed = carve(Int32Array);
    this.keptFrom = carve(Int32Array);
    this.keptTo = carve(Int32Array);
    this.detailSeconds = carve(Int32Array);
    this.flags = carve(Uint32Array);
    this.generation = carve(Uint32Array);
    this.attempt = carve(Uint16Array);
    this.addressIndex = carve(Uint16Array);
    this.ports = carve(Uint16Array, PLACES);
    this.state = carve(Uint8Array);
    this.protocol = carve(Uint8Array);
    this.detail = carve(Uint8Array);
    this.addresses = carve(Uint8Array, PLACES * ADDRESS);
  }

  /** Zeroed memory for that many rows; pages that are never touched cost nothing. */
  static memory(capacity: number): SharedArrayBuffer {
    return new SharedArrayBuffer(HEADER_BYTES + Math.ceil(capacity / 8) * 8 * ROW_BYTES);
  }

  /**
   * One more than the highest handle that was ever in use. Handles are given out from the lowest free one, so a scan up
   * to here costs what the busiest moment needed, not the million rows that the open-file limit may allow.
   */
  get used(): number {
    return this.#used[0];
  }

  /** Where in `addresses` the address of that row and place begins. */
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

  /** No address is known of it: those of the connection before must not be taken for its own. */
  clearAddresses(handle: number): void {
    const at = this.addressAt(handle, 0);
    this.addresses.fill(0, at, at + PLACES * ADDRESS);
    this.ports.fill(0, handle * PLACES, (handle + 1) * PLACES);
  }

  /** A row as if it had never been used, but for its addresses; called before each use. */
  clear(handle: number): void {
    if (handle >= this.#used[0]) this.#used[0] = handle + 1;
    this.generation[handle]++;
    this.state[handle] = FREE;
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
    this.kept[handle] = undefined;
    this.keptFrom[handle] = 0;
    this.keptTo[handle] = 0;
    this.host[handle] = undefined;
    this.clusterId[handle] = undefined;
    this.proof[handle] = undefined;
  }
}
