// Whether the peer of a TLS connection said goodbye. Node's TLSSocket tells 'end' for a close_notify and for a bare FIN
// alike; but a FIN can come from anybody on the way, and from a peer that broke off, so that what came before it may be
// half of an answer (RFC 8446 6.1). So the TLS reads through a stream of ours, which knows when the wire ended: an end
// that the TLS finds earlier than that was said inside of it.

import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

export class TlsWire extends Duplex {
  readonly #raw: Socket;
  #isOver = false;

  constructor(raw: Socket) {
    super({ allowHalfOpen: true });
    this.#raw = raw;
    raw.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) raw.pause();
    });
    raw.once('end', () => this.push(null));
    raw.once('error', error => this.destroy(error));
    raw.once('close', () => {
      if (!raw.readableEnded) this.destroy();
    });
    // The first to hear of it: the TLS has had every byte by then, and hears of the end next.
    this.once('end', () => {
      this.#isOver = true;
    });
  }

  /** Of the TLS that was just put on top. The answer counts once that has ended. */
  watch(tls: TLSSocket): () => boolean {
    let isTruncated = false;
    const push = tls.push.bind(tls);
    tls.push = (chunk, encoding) => {
      if (chunk === null) isTruncated = this.#isOver;
      return push(chunk, encoding);
    };
    return () => isTruncated;
  }

  override _read(): void {
    this.#raw.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#raw.write(chunk, done);
  }

  override _final(done: () => void): void {
    this.#raw.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#raw.destroy();
    done(error);
  }
}
