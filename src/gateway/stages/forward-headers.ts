// Which headers pass: hop-by-hop headers are dropped (RFC 9110 7.6.1), and X-Forwarded-* tells who the client is.
// Lists are flat and alternate names and values, as in node:http: order, case and repetitions survive. Pure.

/** For the next hop only. `TE` passes where it says `trailers`; framing is written anew. */
const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]);

/** Headers that we write or judge. Their spellings with `_` are dropped: some programs read `_` as `-`. */
const controlled: ReadonlySet<string> = new Set([...hopByHop, 'host', 'content-length', 'expect', 'trailer']);

const NO_CONTENT = 204;

export interface Forwarding {
  readonly isHttp10: boolean;
  /** The true client's address. */
  readonly client: string;
  /** The Host header. */
  readonly host: string;
  /** X-Forwarded-* and Forwarded come from a balancer, and pass. If it sends PROXY headers, they are the client's. */
  readonly trustForwarded: boolean;
  /** The protocol to switch to, as the client named it. */
  readonly upgrade: string | undefined;
  /** Whether the connection to the backend may serve other requests. */
  readonly keepAlive: boolean;
  readonly isChunked: boolean;
  /** The method may have a body and this request has none: it needs `Content-Length: 0`. */
  readonly isEmpty: boolean;
}

export function requestHeaders(raw: readonly string[], forwarding: Forwarding): string[] {
  const dropped = namedByConnection(raw);
  const headers: string[] = [];
  const forwarded: string[] = [];
  let proto = false;
  let host = false;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at].toLowerCase();
    const value = raw[at + 1];
    if (name === 'x-forwarded-for' && forwarding.trustForwarded) forwarded.push(value);
    else if (name === 'te' && /\btrailers\b/i.test(value)) headers.push('TE', 'trailers');
    else if (hopByHop.has(name) || dropped?.has(name) === true || isForwarded(name, forwarding)) continue;
    else if (isDisguised(name) || (name === 'trailer' && !forwarding.isChunked)) continue;
    // RFC 9110 10.1.1: HTTP/1.0 has no expectations, and could not receive 100 Continue.
    else if (name === 'expect' && forwarding.isHttp10) continue;
    else {
      proto ||= name === 'x-forwarded-proto';
      host ||= name === 'x-forwarded-host';
      headers.push(raw[at], value);
    }
  }
  headers.push('X-Forwarded-For', [...forwarded, forwarding.client].join(', '));
  if (!proto) headers.push('X-Forwarded-Proto', 'http');
  if (!host) headers.push('X-Forwarded-Host', forwarding.host);
  if (forwarding.upgrade !== undefined) headers.push('Upgrade', forwarding.upgrade, 'Connection', 'Upgrade');
  else headers.push('Connection', forwarding.keepAlive ? 'keep-alive' : 'close');
  if (forwarding.isChunked) headers.push('Transfer-Encoding', 'chunked');
  else if (forwarding.isEmpty) headers.push('Content-Length', '0');
  return headers;
}

export interface ResponseForwarding {
  readonly status: number | undefined;
  /** Keeps the headers that a 101 needs. */
  readonly upgrade: boolean;
  /** Without chunks there are no trailers to announce. */
  readonly isChunked: boolean;
}

export function responseHeaders(
  raw: readonly string[],
  { status = 0, upgrade, isChunked }: ResponseForwarding,
): string[] {
  const dropped = namedByConnection(raw);
  const headers: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at].toLowerCase();
    if (name === 'upgrade' && upgrade) headers.push(raw[at], raw[at + 1], 'Connection', 'Upgrade');
    else if (name === 'trailer' && !isChunked) continue;
    // RFC 9110 8.6: on these, it would make a client wait for a body, or read the next response as one.
    else if (name === 'content-length' && (status < 200 || status === NO_CONTENT)) continue;
    else if (!hopByHop.has(name) && dropped?.has(name) !== true) headers.push(raw[at], raw[at + 1]);
  }
  return headers;
}

/** RFC 9110 6.5.1: fields that frame, route or identify the client are no trailers, where nothing would judge them. */
export function trailers(raw: readonly string[]): [name: string, value: string][] {
  const passed: [string, string][] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at].toLowerCase().replaceAll('_', '-');
    if (controlled.has(name) || endToEnd.has(name) || name.startsWith('x-forwarded-')) continue;
    passed.push([raw[at], raw[at + 1]]);
  }
  return passed;
}

/** RFC 9110 7.6.1: headers that `Connection` names are for the next hop, except those that matter end to end. */
function namedByConnection(raw: readonly string[]): Set<string> | undefined {
  let names: Set<string> | undefined;
  for (let at = 0; at < raw.length; at += 2) {
    if (raw[at].toLowerCase() !== 'connection') continue;
    for (const token of raw[at + 1].toLowerCase().split(',')) {
      const name = token.trim();
      if (name === 'keep-alive' || name === 'close' || name === 'upgrade' || endToEnd.has(name)) continue;
      names ??= new Set();
      names.add(name);
    }
  }
  return names;
}

/** `Connection: host` or `Connection: x-forwarded-for` must not remove a header that the backend relies on. */
const endToEnd: ReadonlySet<string> = new Set([
  '',
  'host',
  'content-length',
  'content-type',
  'authorization',
  'cookie',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
]);

function isForwarded(name: string, forwarding: Forwarding): boolean {
  return !forwarding.trustForwarded && (name === 'forwarded' || name.startsWith('x-forwarded-'));
}

/** Programs that follow CGI's rules read `X_Forwarded_For` as `X-Forwarded-For`, and likewise for other names. */
function isDisguised(name: string): boolean {
  if (!name.includes('_')) return false;
  const plain = name.replaceAll('_', '-');
  return controlled.has(plain) || plain.startsWith('x-forwarded-');
}
