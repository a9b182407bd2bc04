// For tests: HTTP in random scripts. What clients send, servers that answer it, and what must have come of it: each client
// gets the responses to its own requests, and each backend whole requests of its own cluster.

import assert from 'node:assert/strict';
import type { ScriptedPeer } from '../io/scripted-peer.samples.ts';
import {
  clientOf,
  patternFrom,
  resumeAll,
  type ScriptedClient,
  startsWith,
  type World,
} from './any-order.samples.ts';
import { type Message, readMessage } from './http-messages.samples.ts';

/** By the last number of a backend's address. */
const hostOf: Readonly<Record<string, string>> = {
  1: 'a.lab',
  2: 'b.lab',
  3: 'b.lab',
  4: 'p.lab',
  5: 'a.lab',
};
/** These may be sent to a second backend. */
const repeatable = new Set(['GET', 'HEAD', 'PUT']);
/** Ends that cut a response off with FIN. */
const cutInOrder = new Set(['drained', 'idle-timeout', 'half-closed-timeout']);

/** What a client is going to ask. */
export interface RequestPlan {
  readonly method: string;
  readonly host: string;
  readonly body: 'none' | 'length' | 'chunked';
  readonly size: number;
  readonly version: 'HTTP/1.1' | 'HTTP/1.0';
  readonly keepAlive: boolean;
}

/** A request as a client sends it. */
interface Planned {
  readonly method: string;
  readonly host: string;
  readonly body: Buffer;
  readonly isHttp10: boolean;
  readonly offersUpgrade: boolean;
  /** Where it ends in the client's stream. */
  readonly end: number;
}

export interface Client extends ScriptedClient {
  readonly source: string;
  readonly requests: readonly Planned[];
}

/** What a backend has answered to a request. */
interface Answer {
  readonly status: number;
  readonly body: Buffer;
  /** Only the end of the connection ends it, wherever that comes. */
  readonly isUntilClose: boolean;
}

/** A server behind one connection: it answers one request after another. */
interface Server {
  /** Number of requests it has answered. */
  answered: number;
  /** What it is about to send. */
  outbox: Buffer;
  /** It closes once that is sent. */
  isClosing: boolean;
  hasSwitched: boolean;
  /** It has said what nobody asked for. */
  hasBabbled: boolean;
}

export interface HttpWorld extends World<Client> {
  readonly servers: Map<ScriptedPeer, Server>;
  /** By number of the request. */
  readonly answers: Map<string, Answer[]>;
}

/** How a server answers. */
export interface Response {
  readonly status: number;
  readonly framing: 'length' | 'chunked' | 'close';
  readonly size: number;
  /** How many informational responses come before it. */
  readonly informational: number;
  readonly closes: boolean;
  /** It accepts the offer of another protocol. */
  readonly switches: boolean;
  /** It does not wait for the whole request. */
  readonly isEarly: boolean;
}

/** The bytes of a client's requests, the last of which may offer an upgrade, and of what it says behind that. */
export function streamOf(
  client: number,
  plans: readonly RequestPlan[],
  upgrade: boolean,
): Pick<Client, 'stream' | 'requests'> {
  const parts: Buffer[] = [];
  const requests: Planned[] = [];
  let end = 0;
  for (const [index, plan] of plans.entries()) {
    const { method, host } = plan;
    const isHttp10 = plan.version === 'HTTP/1.0';
    const offersUpgrade = upgrade && index === plans.length - 1 && !isHttp10;
    const { head, body, framed } = requestOf(`${client}-${index}`, plan, offersUpgrade);
    parts.push(head, framed);
    end += head.length + framed.length;
    requests.push({ method, host, body, isHttp10, offersUpgrade, end });
  }
  if (requests.at(-1)?.offersUpgrade) parts.push(patternFrom(`U${client}:`).subarray(0, 10_000));
  return { stream: Buffer.concat(parts), requests };
}

function requestOf(number: string, plan: RequestPlan, offersUpgrade: boolean) {
  const { method, host, size, version, keepAlive } = plan;
  const isHttp10 = version === 'HTTP/1.0';
  const isEmpty = method === 'GET' || method === 'HEAD' || plan.body === 'none' || offersUpgrade;
  // HTTP/1.0 has no chunks.
  const isChunked = plan.body === 'chunked' && !isHttp10;
  const body = isEmpty ? Buffer.alloc(0) : patternFrom(`C${number}:`).subarray(0, size);
  const framing = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`;
  const head = [
    `${method} /${number} ${version}`,
    `Host: ${host}`,
    `X-Number: ${number}`,
    ...(offersUpgrade ? ['Connection: Upgrade', 'Upgrade: echo'] : []),
    ...(keepAlive && isHttp10 ? ['Connection: keep-alive'] : []),
    ...(keepAlive || isHttp10 || offersUpgrade ? [] : ['Connection: close']),
    ...(isEmpty ? [] : [framing]),
    '',
    '',
  ].join('\r\n');
  return { head: Buffer.from(head), body, framed: isChunked && !isEmpty ? chunked(body) : body };
}

export function serverOf({ servers }: HttpWorld, peer: ScriptedPeer): Server {
  let server = servers.get(peer);
  if (server === undefined) {
    server = {
      answered: 0,
      outbox: Buffer.alloc(0),
      isClosing: false,
      hasSwitched: false,
      hasBabbled: false,
    };
    servers.set(peer, server);
  }
  return server;
}

/** Answers the next request, if there is one. */
export function answer(world: HttpWorld, peer: ScriptedPeer, how: Response): void {
  const server = serverOf(world, peer);
  const request = requestsOf(peer)[server.answered];
  if (request === undefined || server.isClosing || server.hasSwitched) return;
  if (!request.isWhole && !how.isEarly) return;
  const number = numberOf(request);
  const switches = how.switches && request.fields.has('upgrade');
  const status = switches ? 101 : how.status;
  const all = world.answers.get(number) ?? [];
  world.answers.set(number, all);
  const hasBody = status !== 101 && status !== 204 && status !== 304 && !request.line.startsWith('HEAD ');
  const body = patternFrom(`S${number}/${all.length}:`).subarray(0, how.size);
  const isUntilClose = hasBody && how.framing === 'close';
  all.push({ status, body: hasBody ? body : Buffer.alloc(0), isUntilClose });
  const framing = {
    length: `Content-Length: ${body.length}`,
    chunked: 'Transfer-Encoding: chunked',
    close: 'X-Framing: none',
  }[how.framing];
  const head = [
    `HTTP/1.1 ${status} Status`,
    `X-Number: ${number}`,
    ...(switches ? ['Connection: Upgrade', 'Upgrade: echo'] : [framing]),
    ...(how.closes && !switches ? ['Connection: close'] : []),
    '',
    '',
  ].join('\r\n');
  const informational = `HTTP/1.1 103 Early Hints\r\nX-Number: ${number}\r\n\r\n`.repeat(how.informational);
  const raw = switches ? patternFrom(`T${number}:`).subarray(0, how.size) : Buffer.alloc(0);
  server.outbox = Buffer.concat([
    server.outbox,
    Buffer.from(informational + head),
    hasBody ? (how.framing === 'chunked' ? chunked(body) : body) : raw,
  ]);
  server.answered++;
  server.hasSwitched = switches;
  server.isClosing = !switches && (how.closes || isUntilClose || !request.isWhole);
}

export function send(world: HttpWorld, peer: ScriptedPeer, count: number): void {
  const server = serverOf(world, peer);
  peer.sends(server.outbox.subarray(0, count));
  server.outbox = server.outbox.subarray(count);
  if (server.outbox.length === 0 && server.isClosing) peer.fin();
}

export function assertStreams(world: HttpWorld): void {
  const { it, clients } = world;
  resumeAll(world);
  const deliveries = new Map<string, number>();
  for (const peer of it.io.dialled) {
    assertOneClient(peer);
    const server = Number(/^192\.0\.2\.(\d)/.exec(peer.name)?.[1]);
    for (const request of requestsOf(peer)) {
      const number = numberOf(request);
      const [index, at] = number.split('-').map(Number);
      const { source, requests } = clients[index];
      const { method, host, body } = requests[at];
      deliveries.set(number, (deliveries.get(number) ?? 0) + 1);
      assert.ok(deliveries.get(number) === 1 || repeatable.has(method), `${method} was sent twice`);
      assert.equal(host, hostOf[server], 'a request reached another cluster');
      assert.equal(request.line, `${method} /${number} HTTP/1.1`);
      assert.equal(request.fields.get('host'), host);
      assert.equal(request.fields.get('x-forwarded-for'), source);
      const port = clients[index].peer.name.split(':')[1];
      // The address of a client that has just reset is not known any more.
      const header = host === 'p.lab' ? new RegExp(`^PROXY .* ${port} (443|0)\r\n$`) : /^$/;
      assert.match(headerOf(peer), header);
      assert.ok(startsWith(body, request.body), 'the body of a request');
      if (request.isWhole) assert.equal(request.body.length, body.length);
    }
  }
  for (const client of clients) responsesTo(client, world);
  for (const { peer: from, why, bytesIn, bytesOut } of it.records) {
    const client = clientOf(world, from.port);
    const { peer } = client;
    assert.notEqual(why, 'bad-request');
    if (why === 'backend-reset') assertBackendFailed(world, client);
    assert.ok(bytesIn <= peer.sent.length && bytesOut >= peer.received.length);
    if (why === 'done' && peer.end === 'fin') assert.equal(bytesOut, peer.received.length);
  }
}

/** Behind a body, and behind a PROXY header, a connection has requests of one client only. */
function assertOneClient(peer: ScriptedPeer): void {
  let owner = '';
  for (const request of requestsOf(peer)) {
    const [client] = numberOf(request).split('-');
    assert.ok(owner === '' || owner === client, 'a connection with a body serves another client');
    if (headerOf(peer) !== '' || request.body.length > 0) owner = client;
  }
}

/** A server left, or did not speak HTTP, that got one of its requests, or had not read a whole one. */
function assertBackendFailed(world: HttpWorld, client: Client): void {
  const index = world.clients.indexOf(client);
  const hasFailed = world.it.io.dialled.some(peer => {
    const numbers = requestsOf(peer).map(numberOf);
    const isMeant = numbers.length === 0 || numbers.some(number => number.startsWith(`${index}-`));
    return isMeant && (peer.hasSentFin || peer.hasSentReset || serverOf(world, peer).hasBabbled);
  });
  assert.ok(hasFailed, 'backend-reset, but no backend has failed');
}

/** The requests that a backend got. Behind a request that is not whole, or an upgrade, there is none. */
export function requestsOf(peer: ScriptedPeer): Message[] {
  const requests: Message[] = [];
  const { received } = peer;
  for (let at = headerOf(peer).length; ; ) {
    const message = readMessage(received, at, () => 'none');
    if (message === undefined) return requests;
    requests.push(message);
    if (!message.isWhole || message.fields.has('upgrade')) return requests;
    at = message.end;
  }
}

/** Its PROXY header. */
function headerOf({ received }: ScriptedPeer): string {
  if (received.toString('latin1', 0, 6) !== 'PROXY ') return '';
  return received.toString('latin1', 0, received.indexOf('\r\n') + 2);
}

function numberOf({ fields }: Message): string {
  return fields.get('x-number') ?? assert.fail('a message without a number');
}

/** The statuses of whole responses. Checks that each is the one to its request, and that nothing else was sent. */
export function responsesTo({ peer, requests }: Client, { it, answers }: HttpWorld): number[] {
  const statuses: number[] = [];
  const isCut = it.records.some(
    record => cutInOrder.has(record.why) && peer.name.endsWith(`:${record.peer.port}`),
  );
  const { received } = peer;
  for (let at = 0; at < received.length; ) {
    const index = statuses.length;
    const request = requests[index];
    const message = readMessage(received, at, status =>
      request?.method === 'HEAD' || status < 200 || status === 204 || status === 304 ? 'none' : 'close',
    );
    if (message === undefined) return statuses;
    const status = Number(message.line.split(' ')[1]);
    at = message.end;
    const number = message.fields.get('x-number');
    if (status === 308 && number === undefined) {
      assert.equal(request?.host, 'r.lab');
      statuses.push(status);
      continue;
    }
    if (number === undefined) {
      assert.ok(status >= 400, 'a response of the gateway');
      // A HEAD that was not read to its end is refused like any other half request, in part if the client is slow.
      const rest = request?.method === 'HEAD' ? Number(message.fields.get('content-length')) : 0;
      assert.ok(received.length <= at + rest, 'bytes behind a refusal');
      return [...statuses, status];
    }
    assert.match(number, new RegExp(`-${index}$`), 'a response to another request');
    if (request?.isHttp10) assert.ok(status >= 200 && !message.fields.has('transfer-encoding'), 'HTTP/1.0');
    if (status === 103) continue;
    const given = (answers.get(number) ?? []).filter(
      one => one.status === status && startsWith(one.body, message.body),
    );
    assert.ok(given.length > 0, `a body that no server sent: ${message.line}`);
    if (status === 101) {
      assert.ok(startsWith(patternFrom(`T${number}:`), received.subarray(at)), 'bytes behind an upgrade');
      return [...statuses, status];
    }
    if (!message.isWhole) return statuses;
    const isMeasured = !message.isUntilClose || (peer.end === 'fin' && !isCut);
    const isComplete = given.some(one => one.isUntilClose || one.body.length === message.body.length);
    assert.ok(isComplete || !isMeasured, 'a response looks complete and is not');
    statuses.push(status);
  }
  return statuses;
}

function chunked(body: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += 1000) {
    const part = body.subarray(at, at + 1000);
    parts.push(
      Buffer.from(`${part.length.toString(16)}${at % 3000 === 0 ? ';a=b' : ''}\r\n`),
      part,
      Buffer.from('\r\n'),
    );
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')]);
}
