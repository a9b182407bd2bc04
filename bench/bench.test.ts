// The benchmark runs: it produces figures without errors. Their size does not matter here.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { missingPrograms } from '../testbed/packages.ts';
import { run } from '../testbed/run.ts';
import { tempDir } from '../testbed/temp-dir.ts';
import type { Report } from './report/report.ts';

const main = new URL('main.ts', import.meta.url).pathname;

test('npm run bench measures new connections through Causeway and directly', {
  skip: missingPrograms('cc', 'taskset', 'go'),
}, async () => {
  await using dir = await tempDir();
  const flags = { scenario: 'a', peer: 'causeway,direct', rounds: '1', duration: '200ms', engine: 'net' };
  const args = Object.entries({ ...flags, out: dir.path }).flatMap(([flag, value]) => [`--${flag}`, value]);
  const { code, stdout, stderr } = await run(process.execPath, [main, ...args], { timeoutMs: 120_000 });
  assert.equal(code, 0, stderr);
  assert.match(stdout.toString(), /CPU per connection, hello only, µs/);
  const { scenarios, machine } = JSON.parse(await readFile(dir.file('results.json'), 'utf8')) as Report;
  const results = Object.fromEntries(scenarios[0].measures.map(({ key, results }) => [key, results]));
  for (const key of ['hello-cpu', 'tls-cpu']) assert.ok(results[key].causeway.median > 0, key);
  for (const key of ['hello-rate', 'tls-rate'])
    for (const peer of ['causeway', 'direct']) assert.ok(results[key][peer].median > 0, `${key} of ${peer}`);
  assert.deepEqual(scenarios[0].failures, []);
  assert.match(Object.fromEntries(machine).causeway, /engine net$/);
  assert.match(await readFile(dir.file('results.svg'), 'utf8'), /^<svg /);
});

test('npm run bench measures HTTP requests through Causeway, through plain node:http and directly', {
  skip: missingPrograms('cc', 'taskset'),
}, async () => {
  await using dir = await tempDir();
  const flags = { scenario: 'i', peer: 'causeway,node-http,direct', rounds: '1', duration: '200ms' };
  const args = Object.entries({ ...flags, out: dir.path }).flatMap(([flag, value]) => [`--${flag}`, value]);
  const { code, stderr } = await run(process.execPath, [main, ...args], { timeoutMs: 120_000 });
  assert.equal(code, 0, stderr);
  const { scenarios } = JSON.parse(await readFile(dir.file('results.json'), 'utf8')) as Report;
  const results = Object.fromEntries(scenarios[0].measures.map(({ key, results }) => [key, results]));
  for (const peer of ['causeway', 'node-http'])
    for (const key of ['per-cpu', 'post-cpu', 'large-cpu'])
      assert.ok(results[key][peer].median > 0, `${key} of ${peer}`);
  assert.ok(results.rate.direct.median > 0);
  assert.deepEqual(scenarios[0].failures, []);
});

test('npm run bench measures the apps of a user cluster through Causeway and directly', {
  skip: missingPrograms('cc', 'taskset'),
}, async () => {
  await using dir = await tempDir();
  const flags = { scenario: 'k', peer: 'causeway,direct', rounds: '1', duration: '100ms' };
  const args = Object.entries({ ...flags, out: dir.path }).flatMap(([flag, value]) => [`--${flag}`, value]);
  const { code, stderr } = await run(process.execPath, [main, ...args], { timeoutMs: 120_000 });
  assert.equal(code, 0, stderr);
  const { scenarios } = JSON.parse(await readFile(dir.file('results.json'), 'utf8')) as Report;
  const results = Object.fromEntries(scenarios[0].measures.map(({ key, results }) => [key, results]));
  for (const key of ['connection', 'message', 'request']) {
    for (const peer of ['causeway', 'direct']) assert.ok(results[`${key}-p50`][peer].median > 0, key);
    assert.ok(results[`${key}-cpu`].causeway.median > 0, key);
  }
  for (const key of ['down-cpu', 'up-cpu']) assert.ok(results[key].causeway.median > 0, key);
  assert.deepEqual(scenarios[0].failures, []);
});

test('npm run bench reports unknown arguments', async () => {
  const { code, stderr } = await run(process.execPath, [main, '--scenario', 'z']);
  assert.equal(code, 64);
  assert.match(stderr, /--scenario must be of a, b, c, d, e, f, g, h, i, j, k, l, m: current value is 'z'/);
});
