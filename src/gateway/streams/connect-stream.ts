// One CONNECT stream of an HTTP/2 connection, as the reactor sees it. END_STREAM is FIN in that direction, RST_STREAM a
// reset. The stages answer in HTTP/1.1: the head of that answer becomes HEADERS.

import { constants, type ServerHttp2Stream } from 'node:http2';
import { parseResponseHead } from '../../wire/http-response.ts';
import { type FaultOwner, guard } from '../guard.ts';
import type { Stream } from '../io/net-reactor.ts';

/** Bytes that came before a reset are passed on, unless the client takes longer than this to read them. */
const LAST_BYTES_MS = 2000;
/** How long a client may take to read the rest of a stream that has ended. */
const LINGER_MS = 30_000;

const nothing = new Uint8Array(0);
/** For a stream that ends without an answer: as over HTTP/1.1, a gateway that is full closes at once. */
const unavailable = Buffer.from('over-limit: the gateway is full or shutting down\n');

export class ConnectStream implements Stream {
  readonly duplex: ServerHttp2Stream;
  readonly #owner: FaultOwner;
  #isAnswered = false;

  constructor(duplex: ServerHttp2Stream, owner: FaultOwner) {
    this.duplex = duplex;
    this.#owner = owner;
  }

  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  write(bytes: Uint8Array, taken: () => void): void {
    if (this.#isAnswered) {
      this.duplex.write(bytes, taken);
      return;
    }
    const head = parseResponseHead(bytes, 0, bytes.length);
    if (head.kind === 'found') this.#answer(head.value.status, bytes.subarray(head.value.end));
  }

  end(): void {
    if (!this.#isAnswered) this.#answer(503, unavailable);
    this.duplex.end();
  }

  /**
   * RFC 9113 8.1: the rest of the client's input is not needed. Only after END_STREAM was sent: nghttp2 drops queued
   * bytes when a reset is requested.
   */
  close(): void {
    const { duplex } = this;
    this.end();
    duplex.resume();
    this.#afterwards(
      LINGER_MS,
      done => (duplex.writableFinished ? done() : duplex.once('finish', done)),
      () => {
        if (!duplex.closed) duplex.close(constants.NGHTTP2_NO_ERROR);
      },
    );
  }

  /** RFC 9113 8.5: a reset is CONNECT_ERROR. It is sent after the bytes that came before it. */
  reset(): void {
    const { duplex } = this;
    this.#isAnswered = true;
    this.#afterwards(
      LAST_BYTES_MS,
      done => {
        if (duplex.closed || duplex.writableFinished || duplex.writableLength === 0) done();
        else if (duplex.writableEnded) duplex.once('finish', done);
        else duplex.write(nothing, done);
      },
      () => closeWithError(duplex),
    );
  }

  wasReset(): boolean {
    return this.duplex.aborted || this.duplex.rstCode !== constants.NGHTTP2_NO_ERROR;
  }

  #answer(status: number, body: Uint8Array): void {
    this.#isAnswered = true;
    const { duplex } = this;
    if (duplex.closed || duplex.destroyed) return;
    if (status === 200) duplex.respond({ ':status': status });
    else
      duplex.respond({
        ':status': status,
        'content-type': 'text/plain; charset=utf-8',
        'content-length': body.length,
      });
    if (body.length > 0) duplex.write(body);
  }

  /** Runs `last` once `wait` is done, or after that time. */
  #afterwards(ms: number, wait: (done: () => void) => void, last: () => void): void {
    const timer = setTimeout(
      guard(this.#owner, () => done()),
      ms,
    );
    const done = guard(this.#owner, () => {
      clearTimeout(timer);
      last();
    });
    this.duplex.once('close', done);
    wait(done);
  }
}

/**
 * close() alone would call end(), which sends END_STREAM before RST_STREAM: a stream that was cut off would look
 * complete. `waitForTrailers` also holds END_STREAM back, but it ends the process (an assertion in OnTrailers, Node
 * 26.10) when the client resets the stream at the wrong moment.
 */
function closeWithError(duplex: ServerHttp2Stream): void {
  if (duplex.closed) return;
  duplex.end = () => duplex;
  duplex.close(constants.NGHTTP2_CONNECT_ERROR);
}
