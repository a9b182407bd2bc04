import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LogSettings } from '../config/config.ts';
import { openLog } from './log.ts';

const settings = (format: LogSettings['format'], level: LogSettings['level'] = 'info'): LogSettings => ({
  level,
  format,
  connections: 'all',
});

test('openLog().use() changes form and level from the next line on', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'log-'));
  try {
    const file = join(folder, 'log');
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
    // Written once the file is open.
    while (lines.length < 4) {
      await sleep(5);
      lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
    }
    const told = lines.map(line =>
      line.startsWith('{') ? (JSON.parse(line) as { msg: string }).msg : `text ${line.split(/\s+/).at(-1)}`,
    );
    assert.deepEqual(told, ['one', 'text two', 'four', 'five']);
  } finally {
    await rm(folder, { recursive: true });
  }
});
