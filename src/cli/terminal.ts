// Colours on a terminal only, and never against the user's will.

import type { WriteStream } from 'node:tty';

/** https://no-color.org: any value that is not empty. */
export function coloured(stream: Pick<WriteStream, 'isTTY'>): boolean {
  return stream.isTTY === true && (process.env.NO_COLOR ?? '') === '' && process.env.TERM !== 'dumb';
}

/** Wraps text in a colour, where the stream is to have colours. */
export function painter(stream: Pick<WriteStream, 'isTTY'>): (code: string, text: string) => string {
  return coloured(stream) ? (code, text) => `\x1b[${code}m${text}\x1b[0m` : (_, text) => text;
}
