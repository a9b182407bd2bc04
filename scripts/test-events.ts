// Reporter inside a test file's process: hands the runner (run-test-file.ts) what happens, as JSON lines on file
// descriptor 3, so that the test's own output stays apart. Written at once, for a process that may end any time.

import { writeSync } from 'node:fs';
import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';

const EVENTS_FD = 3;
/** The runner takes a process for blocked that has said nothing for much longer than this. */
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
      /** The reason, where there is one. */
      readonly skipped: string | boolean;
      readonly line: number;
      /** Empty where only a subtest has failed. */
      readonly error: string;
    };

function tell(event: TestFileEvent): void {
  writeSync(EVENTS_FD, `${JSON.stringify(event)}\n`);
}

// oxlint-disable-next-line import/no-default-export, require-yield -- Node wants a generator, and as the default
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

/** Node wraps what a test threw. A time-out has only a text as cause. */
function describe(error: Error & { failureType?: string }): string {
  if (error.failureType === 'subtestsFailed') return '';
  return error.cause instanceof Error ? inspect(error.cause) : error.message;
}
