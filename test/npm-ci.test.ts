import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
// @ts-expect-error -- JavaScript, as it runs before TypeScript can
import { isInstalled } from '../scripts/npm-ci.mjs';
import { tempDir } from '../testbed/temp-dir.ts';

const lock = {
  packages: {
    '': { name: 'causeway', version: '0.1.0' },
    'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' },
    'node_modules/for-macs': { version: '2.0.0', integrity: 'sha512-b', optional: true },
  },
};

async function given(installed: object | string | undefined): Promise<boolean> {
  await using dir = await tempDir();
  await mkdir(dir.file('node_modules'));
  await writeFile(dir.file('package-lock.json'), JSON.stringify(lock));
  if (installed !== undefined) {
    const text = typeof installed === 'string' ? installed : JSON.stringify({ packages: installed });
    await writeFile(dir.file('node_modules/.package-lock.json'), text);
  }
  return isInstalled(dir.path);
}

test('isInstalled() recognises an install of npm', async () => {
  const a = lock.packages['node_modules/a'];
  assert.equal(await given({ 'node_modules/a': a }), true, 'optional packages are for other machines');
  assert.equal(await given({ 'node_modules/a': a, 'node_modules/more': { version: '1.0.0' } }), true);
});

test('isInstalled() detects missing, different and interrupted packages', async () => {
  const a = lock.packages['node_modules/a'];
  assert.equal(await given(undefined), false);
  assert.equal(await given(''), false);
  assert.equal(await given({}), false);
  assert.equal(await given({ 'node_modules/a': { ...a, version: '1.0.1' } }), false);
  assert.equal(await given({ 'node_modules/a': { ...a, integrity: 'sha512-c' } }), false);
});

test('isInstalled() accepts this checkout', () => {
  assert.equal(isInstalled(new URL('..', import.meta.url).pathname), true);
});
