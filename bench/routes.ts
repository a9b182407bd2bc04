// The routes that every peer serves in a measurement, and the hello that selects them. All names have the same length,
// so that the load generator makes a hello for any of them by patching a few bytes.

import {
  extension,
  helloSamples,
  inRecords,
  join,
  messageOf,
  serverNameExtension,
  vector,
} from '../src/wire/hello.samples.ts';

/** What a backend does with a connection. `web` is HTTP, routed by Host; all others are routed by SNI. */
export const backendKinds = ['answer', 'echo', 'sink', 'source', 'tls', 'web'] as const;
export type BackendKind = (typeof backendKinds)[number];

export interface Routes {
  /** Number of numbered hosts, all routed to `answer`. */
  readonly hosts: number;
  /** Added during the run; also routed to `answer`. */
  readonly added: readonly string[];
  /** Causeway's clusters have one API host and one konnectivity host each, instead of a thousand hosts. */
  readonly smallClusters?: boolean;
  /** Whether `web` is served too. */
  readonly web?: boolean;
  /** Ports of the backends on 127.0.0.1. */
  readonly ports: Readonly<Record<BackendKind, number>>;
}

const DOMAIN = '.bench.test';
/** NAME_LENGTH in load/load.h. */
const NAME_LENGTH = 7;
/** A Go client with HTTP/2, like kubectl: 1.5 KiB, with a post-quantum key share. */
const HELLO_OF = 'go-h2';

const names: Readonly<Record<Exclude<BackendKind, 'answer'>, string>> = {
  echo: 'echo000',
  sink: 'sink000',
  source: 'source0',
  tls: 'tls0000',
  web: 'web0000',
};

export function hostOf(kind: Exclude<BackendKind, 'answer'>): string {
  return `${names[kind]}${DOMAIN}`;
}

/** One of the numbered hosts. */
export function numberedHost(number: number): string {
  return `h${String(number).padStart(NAME_LENGTH - 1, '0')}${DOMAIN}`;
}

/** A host that is not one of the above: the varying part, and the whole name. */
export function newHost(number: number): { readonly name: string; readonly host: string } {
  const name = `new${String(number).padStart(NAME_LENGTH - 3, '0')}`;
  return { name, host: name + DOMAIN };
}

/** Every host with its backend. */
export function* routeEntries(routes: Routes): Generator<readonly [host: string, to: BackendKind]> {
  const { hosts, added, web = false } = routes;
  for (const kind of backendKinds)
    if (kind !== 'answer' && (web || kind !== 'web')) yield [hostOf(kind), kind];
  for (let number = 0; number < hosts; number++) yield [numberedHost(number), 'answer'];
  for (const host of added) yield [host, 'answer'];
}

/** A real client's hello with one of our names, and the name's offset. */
export function benchHello(): { readonly bytes: Uint8Array; readonly nameAt: number } {
  const sample = helloSamples.find(({ client }) => client === HELLO_OF);
  if (sample === undefined) throw new Error(`There is no sample of '${HELLO_OF}'`);
  const message = messageOf(sample.bytes);
  const host = numberedHost(0);
  const bytes = inRecords(withServerName(message, host));
  return { bytes, nameAt: Buffer.from(bytes).indexOf(host) };
}

/** RFC 8446 4.1.2: everything before the extensions stays unchanged. */
function withServerName(message: Uint8Array, host: string): Uint8Array {
  const body = message.subarray(4);
  let at = 34; // version and random
  at += 1 + body[at]; // session id
  at += 2 + ((body[at] << 8) | body[at + 1]); // cipher suites
  at += 1 + body[at]; // compression methods
  const before = body.subarray(0, at);
  const extensions: Uint8Array[] = [];
  for (at += 2; at < body.length; ) {
    const type = (body[at] << 8) | body[at + 1];
    const end = at + 4 + ((body[at + 2] << 8) | body[at + 3]);
    extensions.push(type === 0 ? serverNameExtension(host) : extension(type, body.subarray(at + 4, end)));
    at = end;
  }
  return join(message.subarray(0, 1), vector(3, join(before, vector(2, join(...extensions)))));
}
