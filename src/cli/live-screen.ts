// A full-screen view of a terminal: the alternate screen, keys one by one, and the terminal as it was at the end, however
// the end comes.

import type { ReadStream, WriteStream } from 'node:tty';
import type { ScreenSize } from './top-screen.ts';

const ENTER = '\x1b[?1049h\x1b[?25l\x1b[?7l';
const LEAVE = '\x1b[?7h\x1b[?25h\x1b[?1049l';
/** A terminal that knows synchronized updates shows whole screens only; others ignore it. */
const BEGIN = '\x1b[?2026h\x1b[H';
const END = '\x1b[J\x1b[?2026l';
/** What a terminal without a size is taken for. */
const DEFAULT_SIZE: ScreenSize = { width: 80, height: 24 };
const ESCAPE = '\\u001b';
const KEY = new RegExp(`${ESCAPE}\\[[0-9;]*[A-Za-z~]|${ESCAPE}O[A-Za-z]|[^]`, 'g');
const CTRL_C = '\x03';
const CTRL_Z = '\x1a';

export interface LiveScreen extends Disposable {
  readonly size: ScreenSize;
  draw(lines: readonly string[]): void;
}

export interface LiveScreenOptions {
  readonly input: ReadStream;
  readonly output: WriteStream;
  /** A key as the terminal sends it: `q`, `\x1b[A`. */
  onKey(key: string): void;
  /** The size has changed, or somebody else has written to the terminal. */
  onRedraw(): void;
  /** Ctrl-C, or the terminal is gone. */
  onEnd(): void;
  /** Stops this process until somebody continues it: Ctrl-Z. */
  suspend(): void;
}

export function openLiveScreen(options: LiveScreenOptions): LiveScreen {
  const { input, output, onKey, onRedraw, onEnd, suspend } = options;
  const hasKeys = input.isTTY === true;
  const enter = () => {
    if (hasKeys) input.setRawMode(true);
    output.write(ENTER);
  };
  const leave = () => {
    output.write(LEAVE);
    if (hasKeys) input.setRawMode(false);
  };
  const onData = (bytes: Buffer) => {
    for (const key of keysIn(bytes.toString('latin1'))) {
      if (key === CTRL_C) onEnd();
      else if (key === CTRL_Z) {
        leave();
        suspend();
        enter();
        onRedraw();
      } else onKey(key);
    }
  };
  enter();
  output.on('resize', onRedraw).on('error', onEnd);
  if (hasKeys) input.on('data', onData).on('end', onEnd).on('error', onEnd).resume();
  return {
    get size() {
      const { columns, rows } = output;
      return { width: columns || DEFAULT_SIZE.width, height: rows || DEFAULT_SIZE.height };
    },
    draw(lines) {
      output.write(BEGIN + lines.map(line => `${line}\x1b[K`).join('\r\n') + END);
    },
    [Symbol.dispose]() {
      leave();
      output.off('resize', onRedraw);
      if (hasKeys) input.off('data', onData).off('end', onEnd).pause();
    },
  };
}

/** Escape sequences of keys such as `\x1b[5~` whole, all else character by character. */
function keysIn(text: string): readonly string[] {
  return text.match(KEY) ?? [];
}
