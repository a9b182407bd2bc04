// Keeps what programs print for a failing test, in memory and in a file, so that
// there is something to read when the test file itself was killed. The test runner names the directory, shows
// the logs of failed tests, and removes the rest.

import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getTestContext } from 'node:test';

/** The runner's directory for the files. If unset, no files are written. */
const DIRECTORY = process.env.CAUSEWAY_TEST_LOGS;
/** Beyond this size the oldest half is dropped from memory. No test that counts lines prints nearly as much. */
const MAX_LOG = 64 * 1024 * 1024;

export interface KeptLog {
  add(chunk: Buffer): void;
  text(): string;
}

let files = 0;

/** The log of a program that the current test started. The file's first line is JSON: the command and the test. */
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
