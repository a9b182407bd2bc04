// The headers that pass: hop-by-hop ones stay behind (RFC 9110 7.6.1), and who the client is stands in X-Forwarded-*.
// Lists are flat, names and values in turn, as node:http has them: order, case and repetitions stay. Pure.

/** Between two neighbours only. `TE` goes on where it says `trailers`; framing is made anew. */
const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]);

/** What a name written with `_` would be to a program that does not tell it from `-`: never passed by that name. */
const written: ReadonlySet<string> = new Set([...hopByHop, 'host', 'content-length', 'expect', 'trailer']);

const NO_CONTENT = 204;

export interface Forwarding {
  readonly isHttp10: boolean;
  /** The true client's address. */
  readonly client: string;
  /** The Host header. */
  readonly host: string;
  /** X-Forwarded-* and Forwarded are those of a balancer, and pass. Behind one that sends PROXY headers they are the client's. */
  readonly trustForwarded: boolean;
  /** The protocol to switch to, as the client named it. */
  readonly upgrade: string | undefined;
  /** Whether the connection to the backend may serve other requests. */
  readonly keepAlive: boolean;
  readonly isChunked: boolean;
  /** The method may have a body and this request has none, which must be said. */
  readonly isEmpty: boolean;
}

export function requestHeaders(raw: readonly string[], handOff: Forwarding): string[] {
  const dropped = namedByConnection(raw);
  const headers: string[] = [];
  const forwarded: string[] = [];
  let proto = false;
  let host = false;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at].toLowerCase();
    const value = raw[at + 1];
    if (name === 'x-forwarded-for' && handOff.trustForwarded) forwarded.push(value);
    else if (name === 'te' && /\btrailers\b/i.test(value)) headers.push('TE', 'trailers');
    else if (hopByHop.has(name) || dropped?.has(name) === true || isForwarded(name, handOff)) continue;
    else if (isDisguised(name) || (name === 'trailer' && !handOff.isChunked)) continue;
    // RFC 9110 10.1.1: HTTP/1.0 knows no expectations, and could not be told to continue.
    else if (name === 'expect' && handOff.isHttp10) continue;
    else {
      proto ||= name === 'x-forwarded-proto';
      host ||= name === 'x-forwarded-host';
      headers.push(raw[at], value);
    }
  }
  headers.push('X-Forwarded-For', [...forwarded, handOff.client].join(', '));
  if (!proto) headers.push('X-Forwarded-Proto', 'http');
  if (!host) headers.push('X-Forwarded-Host', handOff.host);
  if (handOff.upgrade !== undefined) headers.push('Upgrade', handOff.upgrade, 'Connection', 'Upgrade');
  else headers.push('Connection', handOff.keepAlive ? 'keep-alive' : 'close');
  if (handOff.isChunked) headers.push('Transfer-Encoding', 'chunked');
  else if (handOff.isEmpty) headers.push('Content-Length', '0');
  return headers;
}

export interface Answering {
  readonly status: number | undefined;
  /** Keeps what an answer 101 needs. */
  readonly upgrade: boolean;
  /** Without chunks there are no trailers to announce. */
  readonly isChunked: boolean;
}

export function responseHeaders(
  raw: readonly string[],
  { status = 0, upgrade, isChunked }: Answering,
): string[] {
  const dropped = namedByConnection(raw);
  const headers: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at].toLowerCase();
    if (name === 'upgrade' && upgrade) headers.push(raw[at], raw[at + 1], 'Connection', 'Upgrade');
    else if (name === 'trailer' && !isChunked) continue;
    // RFC 9110 8.6: of these it would make a client wait for a body, or take the next answer for one.
    else if (name === 'content-length' && (status < 200 || status === NO_CONTENT)) continue;
    else if (!hopByHop.has(name) && dropped?.has(name) !== true) headers.push(raw[at], raw[at + 1]);
  }
  return headers;
}

/** RFC 9110 6.5.1: what frames, routes, or tells who asks has no place behind the body, where it would come unjudged. */
export function trailers(raw: readonly string[]): [name: string, value: string][] {
  const passed: [string, string][] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at].toLowerCase().replaceAll('_', '-');
    if (written.has(name) || endToEnd.has(name) || name.startsWith('x-forwarded-')) continue;
    passed.push([raw[at], raw[at + 1]]);
  }
  return passed;
}

/** RFC 9110 7.6.1: what `Connection` names is for the neighbour, but for what tells the message's meaning. */
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

/** `Connection: host` or `Connection: x-forwarded-for` must not take away what the backend relies on. */
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

function isForwarded(name: string, handOff: Forwarding): boolean {
  return !handOff.trustForwarded && (name === 'forwarded' || name.startsWith('x-forwarded-'));
}

/** `X_Forwarded_For` is the same as `X-Forwarded-For` to every program behind CGI's rules, and so are others. */
function isDisguised(name: string): boolean {
  if (!name.includes('_')) return false;
  const plain = name.replaceAll('_', '-');
  return written.has(plain) || plain.startsWith('x-forwarded-');
}
