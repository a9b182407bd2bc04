import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { tempDir } from '../../testbed/temp-dir.ts';
import type { LogSettings } from '../config/config.ts';
import { openLog } from './log.ts';

const settings = (format: LogSettings['format'], level: LogSettings['level'] = 'info'): LogSettings => ({
  level,
  format,
  connections: 'all',
});

test('openLog().use() changes format and level from the next line on', async () => {
  await using dir = await tempDir();
  const file = dir.file('log');
  const { logger, use, close } = openLog(settings('auto'), false, false, file);
  logger.info('one');
  use(settings('text'));
  logger.info('two');
  use(settings('json', 'warn'));
  logger.info('three');
  logger.warn('four');
  use(settings('auto'));
  logger.info('five');
  await using _ = { [Symbol.asyncDispose]: close };
  let lines: string[] = [];
  // Lines are written once the file is open.
  while (lines.length < 4) {
    await sleep(5);
    lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  }
  const reported = lines.map(line =>
    line.startsWith('{') ? (JSON.parse(line) as { msg: string }).msg : `text ${line.split(/\s+/).at(-1)}`,
  );
  assert.deepEqual(reported, ['one', 'text two', 'four', 'five']);
});

const EVIL = 'a\x1b[2J\nb\x7f\x9b1m\u2028\u202ec\u2066';

for (const format of ['json', 'text'] as const) {
  test(`openLog() escapes control characters in untrusted text (${format})`, async () => {
    await using dir = await tempDir();
    const file = dir.file('log');
    const { logger, close } = openLog(settings(format), false, false, file);
    logger.warn({ why: EVIL, list: [EVIL], err: new Error(EVIL), [EVIL]: 1 }, EVIL);
    logger.info({ host: EVIL, clusterId: EVIL, cluster: null, reason: EVIL, client: EVIL }, 'connection');
    await using _ = { [Symbol.asyncDispose]: close };
    let text = '';
    while (text.split('\n').length < 3) {
      await sleep(5);
      text = await readFile(file, 'utf8');
    }
    assert.doesNotMatch(text, /[^\P{Cc}\n]|[\p{Bidi_Control}\u2028\u2029]/u);
    assert.equal(text.split('\n').length, 3, text);
    if (format === 'json') assert.equal((JSON.parse(text.split('\n')[0]) as { why: string }).why, EVIL);
  });
}

test('openLog().close() resolves when every line and the dropped count are written', async () => {
  await using dir = await tempDir();
  const file = dir.file('log');
  const { logger, countDropped, close } = openLog(settings('json'), false, false, file);
  for (let i = 0; i < 1000; i++) logger.info({ i }, 'line');
  countDropped(7);
  await close();
  // After close(): must not be written.
  logger.info('late');
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  const reported = lines.map(line => JSON.parse(line) as { msg: string; count?: number });
  assert.equal(reported.length, 1001);
  assert.deepEqual([reported[999].msg, reported[1000].msg, reported[1000].count], ['line', 'dropped', 7]);
});
