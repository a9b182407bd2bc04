// What goes to a terminal: colours only where there is one and the user wants them, and no control characters from
// elsewhere.

import type { WriteStream } from 'node:tty';
import { printable, printableJson } from '../text/printable.ts';

/** https://no-color.org: any value that is not empty. */
export function coloured(stream: Pick<WriteStream, 'isTTY'>): boolean {
  return stream.isTTY === true && (process.env.NO_COLOR ?? '') === '' && process.env.TERM !== 'dumb';
}

/** Wraps text in a colour, where the stream is to have colours. */
export function painter(stream: Pick<WriteStream, 'isTTY'>): (code: string, text: string) => string {
  return coloured(stream) ? (code, text) => `\x1b[${code}m${text}\x1b[0m` : (_, text) => text;
}

/** Words for people, on stderr: each argument is one line, whatever it contains. */
export function tell(...lines: readonly string[]): void {
  process.stderr.write(lines.map(line => `${printable(line)}\n`).join(''));
}

/** A value for other programs, on stdout. */
export function writeJson(value: unknown): void {
  process.stdout.write(`${printableJson(JSON.stringify(value, null, 2))}\n`);
}
