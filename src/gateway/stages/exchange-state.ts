// The state of an HTTP connection that is not in its row: the request in progress, and how its body and the response
// are framed. One object per connection serves all its requests.

import type { ChunkedBody } from '../../wire/chunked-body.ts';
import { forwardedLines } from './forward-headers.ts';
import type { RequestedHost } from './judge-request.ts';

/** A body on its way: its bytes still to come, or the state of its chunks. */
export interface Body {
  /** Bytes still to come, Infinity for a body that ends with the connection. */
  left: number;
  chunks: ChunkedBody | undefined;
}

export interface ExchangeState {
  /** The true client, as X-Forwarded-For has it. */
  readonly client: string;
  /** What the backend is told about it. */
  readonly forwardedLines: Uint8Array;
  /** X-Forwarded-* and Forwarded come from a balancer. */
  readonly trustForwarded: boolean;
  /** The host of the first request. */
  firstHost: string | undefined;
  /** The host of the last request. */
  host: RequestedHost | undefined;
  /** Bytes of the connection that are already counted for a route. */
  countedIn: number;
  countedOut: number;
  /** The next request had begun to arrive before the last response was complete. */
  isBehind: boolean;
  /** The connection has switched protocols: its tunnel counts the bytes. */
  isSwitched: boolean;
  /** A request is in progress, from its head to the end of its response. */
  isOpen: boolean;
  startedAt: number;
  method: string;
  isHttp10: boolean;
  /** The head for the backend, one character per byte, as long as it may have to be sent. */
  head: string;
  readonly body: Body;
  /** The whole request has been read. */
  isWhole: boolean;
  /** The backend takes no more of the request: what comes is dropped. */
  isUnwanted: boolean;
  /** The client may send another request after this one. */
  keepAlive: boolean;
  /** The client offered to switch protocols, and the backend may. */
  mayUpgrade: boolean;
  /** It has no body and may be sent again, in case the kept connection that it went over has just closed. */
  isRepeatable: boolean;
  /** It may go over a connection that has served other requests. */
  mayReuse: boolean;
  /** That connection serves other clients too. */
  isShared: boolean;
  /** The connection to the backend is kept for other requests afterwards. */
  isKept: boolean;
  /** The kept connection had just closed: it is to be sent again over a new one. */
  isRepeated: boolean;
  /** It went over a connection that had served other requests. */
  wasReused: boolean;
  /** 0 until there is a response. */
  status: number;
  /** A part of the response may have reached the client. */
  isStarted: boolean;
  /** The whole response has been read. */
  isResponseRead: boolean;
  readonly response: Body;
  /** The client gets the response in chunks. */
  isChunked: boolean;
  /** The backend closes after this response. */
  backendCloses: boolean;
}

export function newExchangeState(client: string, trustForwarded: boolean): ExchangeState {
  return {
    client,
    forwardedLines: forwardedLines(client),
    trustForwarded,
    firstHost: undefined,
    host: undefined,
    countedIn: 0,
    countedOut: 0,
    isBehind: false,
    isSwitched: false,
    isOpen: false,
    startedAt: 0,
    method: '',
    isHttp10: false,
    head: '',
    body: { left: 0, chunks: undefined },
    isWhole: true,
    isUnwanted: false,
    keepAlive: true,
    mayUpgrade: false,
    isRepeatable: false,
    mayReuse: false,
    isShared: false,
    isKept: false,
    isRepeated: false,
    wasReused: false,
    status: 0,
    isStarted: false,
    isResponseRead: false,
    response: { left: 0, chunks: undefined },
    isChunked: false,
    backendCloses: false,
  };
}

/** For the next request of the connection. */
export function resetExchange(state: ExchangeState, now: number): void {
  state.isOpen = true;
  state.startedAt = now;
  state.method = '';
  state.isHttp10 = false;
  state.head = '';
  state.body.left = 0;
  state.body.chunks = undefined;
  state.isWhole = true;
  state.isUnwanted = false;
  state.keepAlive = false;
  state.mayUpgrade = false;
  state.isRepeatable = false;
  state.mayReuse = false;
  state.isShared = false;
  state.isKept = false;
  state.isRepeated = false;
  state.wasReused = false;
  state.status = 0;
  state.isStarted = false;
  state.isResponseRead = false;
  state.response.left = 0;
  state.response.chunks = undefined;
  state.isChunked = false;
  state.backendCloses = false;
}
