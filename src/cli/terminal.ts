// Terminal output: colours only on a terminal and only if the user wants them, and no control characters from
// untrusted text.

import type { WriteStream } from 'node:tty';
import { printable, printableJson } from '../text/printable.ts';

/** https://no-color.org: any non-empty value turns colours off. */
export function coloured(stream: Pick<WriteStream, 'isTTY'>): boolean {
  return stream.isTTY === true && (process.env.NO_COLOR ?? '') === '' && process.env.TERM !== 'dumb';
}

/** Wraps text in a colour if the stream supports colours. */
export function painter(stream: Pick<WriteStream, 'isTTY'>): (code: string, text: string) => string {
  return coloured(stream) ? (code, text) => `\x1b[${code}m${text}\x1b[0m` : (_, text) => text;
}

/** Writes messages for people to stderr: each argument is one line, whatever it contains. */
export function printError(...lines: readonly string[]): void {
  process.stderr.write(lines.map(line => `${printable(line)}\n`).join(''));
}

/** Lets whoever reads stdout stop early, as `head` does. Otherwise Node ends with a stack trace. */
export function letReaderLeave(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

/** Writes a value for other programs to stdout. */
export function writeJson(value: unknown): void {
  process.stdout.write(`${printableJson(JSON.stringify(value, null, 2))}\n`);
}
