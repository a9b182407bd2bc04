// A watch as bytes: one JSON object a line. Chunks may be split anywhere, also within a character; a line is decoded
// once it is whole.

const NEWLINE = 0x0a;

/** The server sends what is no watch: the message says what. */
export class WatchLinesError extends Error {}

export class WatchLines {
  readonly #maxLine: number;
  /** The beginning of a line, in the chunks that it came in. */
  #begun: Buffer[] = [];
  #size = 0;

  constructor(maxLine: number) {
    this.#maxLine = maxLine;
  }

  /** Calls back with each line that is whole now, parsed. Throws WatchLinesError, after which it is of no use. */
  push(chunk: Buffer, onLine: (value: unknown) => void): void {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      const text = this.#whole(chunk, from, end);
      from = end + 1;
      if (text !== '') onLine(parsed(text));
    }
    if (from < chunk.length) {
      // Not a view of the chunk, which may be far larger than what is left of it.
      this.#begun.push(from === 0 ? chunk : Buffer.from(chunk.subarray(from)));
      this.#grow(chunk.length - from);
    }
  }

  #whole(chunk: Buffer, from: number, end: number): string {
    this.#grow(end - from);
    const text =
      this.#begun.length === 0
        ? chunk.toString('utf8', from, end)
        : Buffer.concat([...this.#begun, chunk.subarray(from, end)]).toString();
    this.#begun = [];
    this.#size = 0;
    return text;
  }

  #grow(bytes: number): void {
    this.#size += bytes;
    if (this.#size > this.#maxLine)
      throw new WatchLinesError(`An event has more than ${this.#maxLine} bytes`);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new WatchLinesError('An event is not JSON', { cause: error });
  }
}
