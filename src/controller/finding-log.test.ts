import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Logger } from 'pino';
import { sampleOrigin } from '../cluster/clusters.samples.ts';
import type { Finding } from '../cluster/finding.ts';
import { FindingLog } from './finding-log.ts';

function given() {
  const lines: Record<string, unknown>[] = [];
  let now = 0;
  const add = (fields: Record<string, unknown>) => lines.push(fields);
  const log = new FindingLog({ info: add, warn: add } as unknown as Logger, () => now);
  return { log, lines, advance: (ms: number) => (now += ms) };
}

function finding(text: string, origin?: Finding['origin']): Finding {
  return { severity: 'error', code: 'HostInvalid', text, fix: '', ...(origin && { origin }) };
}

test('FindingLog writes new findings once, and all of them after an edit of the file', () => {
  const { log, lines } = given();
  log.write([finding('a')], 'new');
  log.write([finding('a'), finding('b')], 'new');
  assert.deepEqual(
    lines.map(({ text }) => text),
    ['a', 'b'],
  );
  log.write([finding('a'), finding('b')], 'all');
  assert.equal(lines.length, 4);
});

test('FindingLog bounds what objects can provoke, and says how many lines are missing', () => {
  const { log, lines, advance } = given();
  const origin = sampleOrigin('services', 'team', 'web');
  const many = Array.from({ length: 1000 }, (_, i) => finding(`host ${i}`, origin));
  log.write(many, 'new');
  assert.equal(lines.length, 50);
  advance(1000);
  log.write([...many, finding('one more', origin)], 'new');
  assert.deepEqual([lines.length, lines.at(-1)?.suppressed], [51, 950]);
});
