import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { built, cacheRoot } from './cache.ts';
import { tempDir } from './temp-dir.ts';

const quiet = () => {};

test('built() returns the directory that the recipe filled, and builds it once', async () => {
  await using dir = await tempDir();
  let builds = 0;
  const recipe = {
    pins: ['v1'],
    async build(directory: string) {
      builds++;
      await writeFile(`${directory}/result`, 'made');
    },
  };
  const first = await built('thing', recipe, { root: dir.path, say: quiet });
  const second = await built('thing', recipe, { root: dir.path, say: quiet });
  assert.equal(second, first);
  assert.equal(builds, 1);
  assert.equal(await readFile(`${first}/result`, 'utf8'), 'made');
});

test('built() uses another directory for other pins, and hashes the content of files', async () => {
  await using dir = await tempDir();
  await using pins = await tempDir();
  const make = (pin: string | URL) =>
    built('thing', { pins: [pin], build: async () => {} }, { root: dir.path, say: quiet });
  const results = [await make('v1'), await make('v2')];
  for (const content of ['one', 'two']) {
    await writeFile(pins.file('go.sum'), content);
    results.push(await make(pathToFileURL(pins.file('go.sum'))), await make(pathToFileURL(pins.path)));
  }
  assert.equal(new Set(results).size, 6);
});

test('built() builds once for concurrent callers in one process', async () => {
  await using dir = await tempDir();
  let builds = 0;
  const recipe = { pins: [], build: async () => void builds++ };
  const results = await Promise.all(
    [1, 2, 3].map(() => built('thing', recipe, { root: dir.path, say: quiet })),
  );
  assert.equal(new Set(results).size, 1);
  assert.equal(builds, 1);
});

/** Builds in a process of its own, noting in `log` when it starts; the build waits for a line on stdin. */
function buildElsewhere(root: string, log: string) {
  const script = `
    const { built } = await import(${JSON.stringify(new URL('./cache.ts', import.meta.url).href)});
    const { appendFileSync } = await import('node:fs');
    const directory = await built('thing', { pins: [], build: async directory => {
      appendFileSync(${JSON.stringify(log)}, 'build\\n');
      appendFileSync(directory + '/half', 'x');
      process.stdout.write('building\\n');
      await new Promise(resolve => process.stdin.once('data', resolve));
    } }, { root: ${JSON.stringify(root)}, say: line => process.stdout.write(line + '\\n') });
    process.stdout.write('done ' + directory + '\\n');
    process.stdin.destroy();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let printed = '';
  child.stdout.on('data', chunk => (printed += chunk));
  return {
    child,
    ended: once(child, 'close'),
    async printed(pattern: RegExp) {
      while (!pattern.test(printed)) await once(child.stdout, 'data');
      return printed;
    },
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  };
}

test('built() builds once for two concurrent processes', async () => {
  await using dir = await tempDir();
  const log = dir.file('log');
  using first = buildElsewhere(dir.file('root'), log);
  await first.printed(/^building$/m);
  using second = buildElsewhere(dir.file('root'), log);
  await second.printed(/waiting for another process/);
  first.child.stdin.write('go\n');
  const results = [await first.printed(/done/), await second.printed(/done/)].map(
    text => /done (.*)/.exec(text)?.[1],
  );
  assert.equal(results[0], results[1]);
  assert.equal(await readFile(log, 'utf8'), 'build\n');
  await Promise.all([first.ended, second.ended]);
});

test('built() leaves no partial result when it is interrupted, and the next caller takes over the stale lock', async () => {
  await using dir = await tempDir();
  using first = buildElsewhere(dir.path, dir.file('log'));
  await first.printed(/^building$/m);
  first.child.kill('SIGKILL');
  await first.ended;
  const left = await readdir(dir.path);
  assert.equal(left.filter(name => /^thing-[0-9a-f]+$/.test(name)).length, 0);
  assert.equal(left.filter(name => name.includes('unfinished')).length, 1);
  assert.equal(left.filter(name => name.endsWith('.lock')).length, 1);

  const result = await built(
    'thing',
    { pins: [], build: async directory => writeFile(`${directory}/whole`, '') },
    { root: dir.path, say: quiet },
  );
  assert.deepEqual(await readdir(result), ['whole']);
  assert.deepEqual(
    (await readdir(dir.path)).filter(name => name !== 'log'),
    [result.slice(dir.path.length + 1)],
  );
});

test('built() takes over the lock of another host only after a long silence', async () => {
  await using dir = await tempDir();
  const recipe = { pins: [], build: async () => {} };
  const target = await built('thing', recipe, { root: dir.path, say: quiet });
  await rm(target, { recursive: true });
  await writeFile(`${target}.lock`, `1 not-${hostname()}`);
  const { promise: waits, resolve } = Promise.withResolvers<string>();
  const result = built('thing', recipe, { root: dir.path, say: resolve });
  assert.match(await waits, /waiting for another process/);
  await utimes(`${target}.lock`, new Date(0), new Date(0));
  assert.equal(await result, target);
});

test('built() removes the output of a failed build, reports the cause, and builds again next time', async () => {
  await using dir = await tempDir();
  const options = { root: dir.path, say: quiet };
  const failing = built(
    'thing',
    { pins: [], build: async () => Promise.reject(new Error('no compiler')) },
    options,
  );
  await assert.rejects(failing, /^Error: Cannot build thing: no compiler$/);
  assert.deepEqual(await readdir(dir.path), []);
  await built('thing', { pins: [], build: async () => {} }, options);
});

test('built() reports progress with the elapsed time', async () => {
  await using dir = await tempDir();
  const lines: string[] = [];
  await built(
    'thing',
    { pins: [], build: async (_, progress) => progress('compiling') },
    { root: dir.path, say: line => lines.push(line) },
  );
  assert.match(
    lines.join(' '),
    /^testbed: thing: building \(\d+ s\) testbed: thing: compiling .* testbed: thing: built /,
  );
});

test('cacheRoot() prefers its own variable, then XDG_CACHE_HOME, then ~/.cache', () => {
  assert.equal(cacheRoot({ CAUSEWAY_TESTBED_CACHE: '/a', XDG_CACHE_HOME: '/b' }), '/a');
  assert.equal(cacheRoot({ XDG_CACHE_HOME: '/b' }), '/b/causeway-testbed');
  assert.match(cacheRoot({}), /\/\.cache\/causeway-testbed$/);
});
