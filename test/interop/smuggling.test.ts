// Refused requests never reach a backend, and every backend parses a forwarded one as the single request that we saw:
// each sample as the first request of a connection, as the second and behind an unanswered one, in one piece and split,
// in front of a backend that keeps all bytes and parses strictly, and of nginx and HAProxy with such a backend.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { parseHttpHead } from '../../src/wire/http-head.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startHaproxy } from '../../testbed/start-haproxy.ts';
import { startNginx } from '../../testbed/start-nginx.ts';
import { connectClient, type Peer } from '../features/given.ts';
import { assertAlive, HttpClient, untilIdle } from '../features/http-given.ts';
import { fill, READ_OVER, type Sample, samples } from './smuggling-samples.ts';

const AT_ONCE = 16;
/** Short samples are sent byte by byte; dripping a long head adds nothing. */
const MOST_PIECES = 250;

interface SeenRequest {
  readonly target: string;
  readonly body: string;
}

/** A backend that keeps everything, parses it as strictly as possible, and answers each request with its target. */
class Recorder implements AsyncDisposable {
  readonly connections: Buffer[] = [];
  readonly requests: SeenRequest[] = [];
  readonly faults: string[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<Recorder> {
    const server = createServer();
    const recorder = new Recorder(server);
    server.on('connection', socket => {
      const index = recorder.connections.push(Buffer.alloc(0)) - 1;
      let rest: Buffer = Buffer.alloc(0);
      socket.on('error', () => {});
      socket.on('data', (chunk: Buffer) => {
        recorder.connections[index] = Buffer.concat([recorder.connections[index], chunk]);
        rest = Buffer.concat([rest, chunk]);
        for (;;) {
          const read = readRequest(rest);
          if (typeof read === 'string') recorder.faults.push(`${read}: ${rest.toString('latin1')}`);
          if (typeof read === 'string' || read === undefined) return;
          rest = rest.subarray(read.end);
          recorder.requests.push(read);
          const { length } = read.target;
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n${read.target}`);
        }
      });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return recorder;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  seen(target: string): number {
    return this.requests.filter(request => request.target === target).length;
  }

  /** Whether any connection received these bytes. */
  heard(text: string): boolean {
    return this.connections.some(bytes => bytes.includes(text));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
  }
}

/** The first request; undefined while it is incomplete; or what is wrong with it. */
function readRequest(bytes: Buffer): (SeenRequest & { readonly end: number }) | string | undefined {
  const head = parseHttpHead(bytes, 0, bytes.length);
  if (head.kind === 'incomplete') return undefined;
  if (head.kind === 'reject') return head.reason;
  const { target, headers, end } = head.value;
  const values = (name: string) => headers.filter(header => header[0] === name).map(([, value]) => value);
  const lengths = values('content-length');
  const encodings = values('transfer-encoding');
  if (values('host').length !== 1) return 'not one Host';
  if (lengths.length + encodings.length > 1) return 'framed twice';
  if (encodings.length === 1) {
    if (encodings[0] !== 'chunked') return 'not chunked';
    const chunks = readChunks(bytes, end);
    return typeof chunks === 'object' ? { target, ...chunks } : chunks;
  }
  if (lengths.length === 1 && !/^\d+$/.test(lengths[0])) return 'length';
  const to = end + Number(lengths[0] ?? 0);
  return bytes.length < to ? undefined : { target, body: bytes.toString('latin1', end, to), end: to };
}

function readChunks(
  bytes: Buffer,
  from: number,
): { readonly body: string; readonly end: number } | string | undefined {
  let body = '';
  for (let at = from; ; ) {
    const line = bytes.indexOf('\r\n', at);
    if (line < 0) return undefined;
    const size = bytes.toString('latin1', at, line);
    if (!/^[0-9a-f]{1,8}$/i.test(size)) return `chunk size ${JSON.stringify(size)}`;
    const to = line + 2 + Number.parseInt(size, 16);
    if (size === '0') {
      if (bytes.length < line + 4) return undefined;
      const blank = bytes.indexOf('\r\n\r\n', line);
      return blank < 0 ? undefined : { body, end: blank + 4 };
    }
    if (bytes.length < to + 2) return undefined;
    if (bytes.toString('latin1', to, to + 2) !== '\r\n') return 'chunk end';
    body += bytes.toString('latin1', line + 2, to);
    at = to + 2;
  }
}

const skip = missingPrograms('nginx', 'haproxy');
const stack = new AsyncDisposableStack();
let gateway: Causeway;
/** The backend behind each host. */
const recorders = new Map<string, Recorder>();

before(async () => {
  for (const host of ['raw.test', 'nginx.test', 'haproxy.test'])
    recorders.set(host, stack.use(await Recorder.start()));
  const port = (host: string) => recorders.get(host)?.port;
  const [nginx, haproxy] = [await freePort(), await freePort()];
  if (!skip) {
    stack.use(
      await startNginx({
        http: `
client_header_buffer_size 32k;
upstream recorder { server 127.0.0.1:${port('nginx.test')}; keepalive 4; }
server {
  listen 127.0.0.1:${nginx};
  location / {
    proxy_pass http://recorder;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_request_buffering off;
  }
}`,
      }),
    );
    stack.use(
      await startHaproxy({
        config: `
global
  tune.bufsize 65536
  tune.http.maxhdr 4096
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend web
  bind 127.0.0.1:${haproxy}
  default_backend recorder
backend recorder
  http-reuse always
  server one 127.0.0.1:${port('haproxy.test')}`,
      }),
    );
  }
  gateway = stack.use(
    await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
workers: 2
log: { connections: none }
clusters:
  - { name: raw, apps: { hosts: [raw.test], http: ["127.0.0.1:${port('raw.test')}"] } }
  - { name: nginx, apps: { hosts: [nginx.test], http: ["127.0.0.1:${nginx}"] } }
  - { name: haproxy, apps: { hosts: [haproxy.test], http: ["127.0.0.1:${haproxy}"] } }
`,
    }),
  );
});

after(() => stack.disposeAsync());

/** First, after a response, or behind an unanswered request. */
const places = ['first', 'second', 'ahead'] as const;

interface Run {
  readonly sample: Sample;
  readonly host: string;
  readonly place: (typeof places)[number];
  readonly inPieces: boolean;
  readonly path: string;
  readonly hidden: string;
}

function runsFor(host: string, pieces: readonly boolean[]): Run[] {
  return samples.flatMap((sample, number) =>
    places.flatMap(place =>
      pieces.map(inPieces => {
        const id = `${number}-${place}-${inPieces ? 'pieces' : 'whole'}-${host}`;
        return { sample, host, place, inPieces, path: `/own-${id}.`, hidden: `/hidden-${id}.` };
      }),
    ),
  );
}

/** Returns whether it was forwarded. */
async function carryOut(run: Run): Promise<boolean> {
  const { sample, host, place, inPieces, path, hidden } = run;
  const recorder = recorders.get(host) as Recorder;
  using visitor = new HttpClient(await connectClient(gateway.port));
  const before = async () => assert.equal((await visitor.answer()).body.toString(), '/before');
  const first = Buffer.from(place === 'first' ? '' : `GET /before HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  const bytes = fill(sample, host, path, hidden);
  if (place === 'second') {
    visitor.send(first);
    await before();
    await send(visitor.peer, bytes, inPieces);
  } else {
    await send(visitor.peer, Buffer.concat([first, bytes]), inPieces);
    if (place === 'ahead') await before();
  }
  const answer = await firstAnswer(visitor);
  const heard = visitor.peer.received().toString('latin1');
  const whole = recorder.seen(path);
  const reported = `${sample.name}, ${path}\n${heard}`;
  assert.equal(recorder.seen(hidden), 0, `hidden: ${reported}`);
  const isPassed = answer === 200;
  if (sample.fate === 'passed' && host === 'raw.test') assert.ok(isPassed, reported);
  if (sample.fate === 'refused' || sample.fate === 'cut') assert.ok(!isPassed, reported);
  if (isPassed) {
    assert.equal(whole, 1, reported);
    assert.ok(heard.includes(path), reported);
  } else {
    // The other program may refuse what we forward; then it is not parsed as anything else.
    assert.ok(answer === undefined || (answer >= 400 && answer < 500), reported);
    assert.equal(whole, 0, reported);
    if (sample.fate === 'refused') assert.ok(!recorder.heard(path), `reached: ${reported}`);
    if (sample.fate !== 'passed') await visitor.ended();
  }
  visitor.peer.reset();
  // The next connection is unaffected.
  using next = new HttpClient(await connectClient(gateway.port));
  assert.equal((await next.get(host, `${path}next`)).body.toString(), `${path}next`, reported);
  return isPassed;
}

async function send(peer: Peer, bytes: Buffer, inPieces: boolean): Promise<void> {
  const size = inPieces ? Math.ceil(bytes.length / MOST_PIECES) : bytes.length;
  peer.socket.setNoDelay(true);
  for (let at = 0; at < bytes.length && peer.end() === undefined && peer.socket.writable; at += size) {
    peer.socket.write(bytes.subarray(at, at + size));
    if (inPieces) await delay(1);
  }
}

/** The status of the first response that is not 1xx; undefined if the connection ended. */
async function firstAnswer(visitor: HttpClient): Promise<number | undefined> {
  try {
    for (;;) {
      const { status } = await visitor.answer();
      if (status >= 200) return status;
    }
  } catch (error) {
    if (visitor.peer.end() === undefined) throw error;
    return undefined;
  }
}

/** Returns the samples that were forwarded at one position and refused at another. */
async function carryOutAll(runs: readonly Run[]): Promise<readonly string[]> {
  const faults: string[] = [];
  const passed = new Map<string, boolean>();
  const unlike = new Set<string>();
  let next = 0;
  const work = async () => {
    for (let run = runs[next++]; run !== undefined; run = runs[next++]) {
      const { name } = run.sample;
      try {
        const isPassed = await carryOut(run);
        if ((passed.get(name) ?? isPassed) !== isPassed) unlike.add(name);
        passed.set(name, isPassed);
      } catch (error) {
        faults.push(`${name} ${run.path}: ${error}`);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  assert.deepEqual(faults, []);
  for (const recorder of recorders.values()) assert.deepEqual(recorder.faults, []);
  assertAlive(gateway);
  await untilIdle(gateway);
  return [...unlike];
}

describe(`${samples.length} samples, each as first, as second and as pipelined request`, () => {
  test('in front of a strict backend, in one piece and split: the same outcome at every position', async () => {
    const unlike = await carryOutAll(runsFor('raw.test', [false, true]));
    assert.deepEqual(unlike.toSorted(), READ_OVER.toSorted());
  });

  test('in front of nginx', { skip }, async () => {
    await carryOutAll(runsFor('nginx.test', [false]));
  });

  test('in front of HAProxy', { skip }, async () => {
    await carryOutAll(runsFor('haproxy.test', [false]));
  });
});
