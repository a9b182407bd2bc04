// One answer without an end, as a watch has it: its time limits, and the one reason for which it ends.

import type { IncomingMessage } from 'node:http';
import type { KubeFault } from './kube-api.ts';

/** A host that is gone is noticed so long after its last byte: Node sends ten probes, one a second. */
const KEEPALIVE_MS = 30_000;

export interface StreamOptions {
  readonly path: string;
  readonly signal: AbortSignal;
  /** For everything until the head of the answer is there. */
  readonly openMs: number;
  /** Without a byte for so long, it ends as `silent`. */
  readonly silenceMs: number;
  /** In all. */
  readonly maxMs: number;
  readonly onOpen: () => void;
  readonly onData: (chunk: Buffer) => void;
}

export type StreamEnd =
  | { readonly why: 'aborted' | 'closed' | 'silent' }
  | { readonly why: 'failed'; readonly fault: KubeFault };

export class KubeStream {
  readonly #options: StreamOptions;
  /** One of its own: Node warns of more than ten listeners to one signal. */
  readonly #outside: AbortSignal;
  readonly #inside = new AbortController();
  readonly #ended = Promise.withResolvers<StreamEnd>();
  #timer: NodeJS.Timeout | undefined;

  /** `closing`: the client's own end. */
  constructor(options: StreamOptions, closing: AbortSignal) {
    const { openMs, signal } = options;
    this.#options = options;
    this.#outside = AbortSignal.any([signal, closing]);
    this.#timer = setTimeout(() => {
      this.fail({ status: 0, reason: 'Timeout', message: `No answer within ${openMs} ms` });
    }, openMs);
    if (this.#outside.aborted) this.#abort();
    else this.#outside.addEventListener('abort', this.#abort);
  }

  /** Aborted when it has ended, for whatever reason. */
  get signal(): AbortSignal {
    return this.#inside.signal;
  }

  get ended(): Promise<StreamEnd> {
    return this.#ended.promise;
  }

  /** The head of the answer is there, and is good. */
  opened(response: IncomingMessage, faultOf: (error: unknown) => KubeFault): void {
    if (this.signal.aborted) return;
    const { silenceMs, maxMs, onOpen, onData } = this.#options;
    clearTimeout(this.#timer);
    // Something between us and the server may keep it open for ever.
    this.#timer = setTimeout(() => this.#end({ why: 'closed' }), maxMs);
    response.socket.setKeepAlive(true, KEEPALIVE_MS);
    response.socket.setTimeout(silenceMs, () => this.#end({ why: 'silent' }));
    response.on('end', () => this.#end({ why: 'closed' }));
    response.on('error', error => this.fail(faultOf(error)));
    response.on('data', (chunk: Buffer) => {
      if (!this.signal.aborted) this.#guard(() => onData(chunk));
    });
    this.#guard(onOpen);
  }

  fail(fault: KubeFault): void {
    this.#end({ why: 'failed', fault });
  }

  readonly #abort = () => this.#end({ why: 'aborted' });

  /** A mistake of the listener's is an end like others. */
  #guard(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.fail({ status: 0, reason: 'Unexpected', message: String(error) });
    }
  }

  #end(how: StreamEnd): void {
    clearTimeout(this.#timer);
    this.#outside.removeEventListener('abort', this.#abort);
    this.#ended.resolve(how);
    this.#inside.abort();
  }
}
