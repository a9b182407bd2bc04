import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { doctorCodes } from './check.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const textOf = (pattern: string) =>
  globSync(pattern, { cwd: ROOT }).map(path => readFileSync(resolve(ROOT, path), 'utf8'));

test('every code of the doctor is expected by a test that breaks something', () => {
  const tests = [...textOf('test/doctor/*.test.ts'), ...textOf('src/doctor/check-*.test.ts')].join('');
  assert.deepEqual(
    doctorCodes.filter(code => !new RegExp(`'${code}\\b`).test(tests)),
    [],
  );
});

test('every code of the doctor is used', () => {
  const sources = globSync('src/doctor/*.ts', { cwd: ROOT, exclude: ['**/*.test.ts', '**/check.ts'] });
  const text = sources.map(path => readFileSync(resolve(ROOT, path), 'utf8')).join('');
  assert.deepEqual(
    doctorCodes.filter(code => !text.includes(`'${code}'`)),
    [],
  );
});
