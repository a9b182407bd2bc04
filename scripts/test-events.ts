// Reporter inside a test file's process: writes events for the runner (run-test-file.ts) as JSON lines to file
// descriptor 3, apart from the test's own output. Writes are synchronous, because the process may end at any time.

import { writeSync } from 'node:fs';
import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';

const EVENTS_FD = 3;
/** Heartbeat interval. The runner treats a process as blocked after a much longer silence. */
const ALIVE_MS = 1_000;

export type TestFileEvent =
  | { readonly type: 'alive' }
  | {
      readonly type: 'begin';
      readonly id: number;
      readonly parent: number | undefined;
      readonly name: string;
    }
  | {
      readonly type: 'end';
      readonly id: number;
      readonly suite: boolean;
      readonly passed: boolean;
      /** The reason, if any. */
      readonly skipped: string | boolean;
      readonly line: number;
      /** Empty if only a subtest failed. */
      readonly error: string;
    };

function tell(event: TestFileEvent): void {
  writeSync(EVENTS_FD, `${JSON.stringify(event)}\n`);
}

// oxlint-disable-next-line import/no-default-export, require-yield -- Node requires a generator as the default export
export default async function* testEvents(source: AsyncIterable<TestEvent>): AsyncGenerator<never> {
  setInterval(() => tell({ type: 'alive' }), ALIVE_MS).unref();
  for await (const { type, data } of source) {
    if (type === 'test:dequeue')
      tell({ type: 'begin', id: data.testId, parent: data.parentId, name: data.name });
    if (type !== 'test:complete') continue;
    const { error } = data.details;
    tell({
      type: 'end',
      id: data.testId,
      suite: data.details.type === 'suite',
      passed: data.details.passed,
      skipped: data.skip ?? data.todo ?? false,
      line: data.line ?? 0,
      error: error === undefined ? '' : describe(error),
    });
  }
}

/** Node wraps the error of a test. The cause of a time-out is only a string. */
function describe(error: Error & { failureType?: string }): string {
  if (error.failureType === 'subtestsFailed') return '';
  return error.cause instanceof Error ? inspect(error.cause) : error.message;
}
