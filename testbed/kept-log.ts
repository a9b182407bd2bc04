// What programs print, kept for a failing test: beside the copy in memory a file is written as it comes, so that
// there is something to read when the test file itself had to be killed. The test runner names the directory, shows
// what belongs to the tests that failed, and removes the rest.

import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getTestContext } from 'node:test';

/** Where the runner wants the files. Without it nothing is written. */
const DIRECTORY = process.env.CAUSEWAY_TEST_LOGS;
/** What comes beyond this drops the oldest half from memory. Far more than a test prints that counts lines. */
const MAX_LOG = 64 * 1024 * 1024;

export interface KeptLog {
  add(chunk: Buffer): void;
  text(): string;
}

let files = 0;

/** A log for one program, started by the test that runs now. Its file's first line is JSON: who and for which test. */
export function keptLog(name: string, command: readonly string[]): KeptLog {
  const file = DIRECTORY === undefined ? undefined : join(DIRECTORY, `${process.pid}-${++files}-${name}.log`);
  if (file !== undefined) {
    const test = getTestContext()?.fullName;
    writeFileSync(
      file,
      `${JSON.stringify({ testFile: process.argv[1], test, command: command.join(' ') })}\n`,
    );
  }
  const decoder = new TextDecoder();
  let text = '';
  return {
    add(chunk) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > MAX_LOG) text = text.slice(-MAX_LOG / 2);
      if (file !== undefined) appendFileSync(file, chunk);
    },
    text: () => text,
  };
}
