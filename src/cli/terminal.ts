// Colours on a terminal only, and never against the user's will.

import type { WriteStream } from 'node:tty';

/** https://no-color.org: any value that is not empty. */
export function coloured(stream: Pick<WriteStream, 'isTTY'>): boolean {
  return stream.isTTY === true && (process.env.NO_COLOR ?? '') === '' && process.env.TERM !== 'dumb';
}
