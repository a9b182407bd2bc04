// Buffers for bytes that a client sends before its backend is connected. They are small, since nearly every hello fits;
// a larger hello moves to a larger buffer, up to the largest hello with headers in front.

import { MAX_HELLO } from '../../wire/client-hello.ts';
import { MAX_PROXY_HEADER } from '../../wire/proxy-protocol.ts';

/** Holds a post-quantum hello (about 1.8 KiB) with two PROXY headers of usual size. */
const USUAL = 4 * 1024;
/** Free buffers kept for the next connections: 1 MiB. */
const KEEP = 256;
/** A balancer's header, an agent's header and a hello. */
const MAX_HELD = 2 * MAX_PROXY_HEADER + MAX_HELLO;

export class HoldPool {
  readonly #free: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(USUAL);
  }

  /** A larger buffer with the same first `used` bytes, or undefined if it may not grow further. */
  grow(buffer: Uint8Array, used: number): Uint8Array | undefined {
    if (buffer.length >= MAX_HELD) return undefined;
    const larger = Buffer.allocUnsafeSlow(Math.min(buffer.length * 4, MAX_HELD));
    larger.set(buffer.subarray(0, used));
    this.give(buffer);
    return larger;
  }

  give(buffer: Uint8Array): void {
    if (buffer.length === USUAL && this.#free.length < KEEP) this.#free.push(buffer);
  }
}
