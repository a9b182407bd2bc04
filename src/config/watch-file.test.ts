import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FileWatch } from './watch-file.ts';

/** Runs `change` on a watched file and resolves once the watch has reported it. */
async function reportedBy(file: string, change: () => Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  using _watch = await FileWatch.start(file, resolve);
  await change();
  await promise;
}

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'causeway-watch-'));
  try {
    await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

test('FileWatch reports a file written in place', () =>
  inFolder(async folder => {
    const file = join(folder, 'causeway.yaml');
    await writeFile(file, 'one');
    await reportedBy(file, () => writeFile(file, 'two'));
  }));

test('FileWatch reports a file replaced by rename', () =>
  inFolder(async folder => {
    const file = join(folder, 'causeway.yaml');
    await writeFile(file, 'one');
    await writeFile(`${file}.new`, 'two');
    await reportedBy(file, () => rename(`${file}.new`, file));
  }));

test('FileWatch reports every swap of the ..data link of a ConfigMap', () =>
  inFolder(async folder => {
    const file = join(folder, 'causeway.yaml');
    const version = async (number: number) => {
      await mkdir(join(folder, `..${number}`));
      await writeFile(join(folder, `..${number}`, 'causeway.yaml'), `version ${number}`);
      await symlink(`..${number}`, join(folder, '..data_tmp'));
      await rename(join(folder, '..data_tmp'), join(folder, '..data'));
    };
    await version(1);
    await symlink(join('..data', 'causeway.yaml'), file);
    let reported = Promise.withResolvers<void>();
    using _watch = await FileWatch.start(file, () => reported.resolve());
    for (const number of [2, 3, 4]) {
      await version(number);
      await reported.promise;
      reported = Promise.withResolvers();
    }
  }));

test('FileWatch reports a change behind a symlink to another folder', () =>
  inFolder(async folder => {
    await mkdir(join(folder, 'elsewhere'));
    const target = join(folder, 'elsewhere', 'real.yaml');
    const file = join(folder, 'causeway.yaml');
    await writeFile(target, 'one');
    await symlink(target, file);
    await reportedBy(file, () => writeFile(target, 'two, in place'));
  }));

test('FileWatch reports when the file is removed and when it comes back', () =>
  inFolder(async folder => {
    const file = join(folder, 'causeway.yaml');
    await writeFile(file, 'one');
    await reportedBy(file, () => rm(file));
    await reportedBy(file, () => writeFile(file, 'again'));
  }));

test('FileWatch ignores other files in the folder', () =>
  inFolder(async folder => {
    const file = join(folder, 'causeway.yaml');
    await writeFile(file, 'one');
    let count = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    using _watch = await FileWatch.start(file, () => {
      count++;
      resolve();
    });
    await writeFile(join(folder, 'other'), 'x');
    await new Promise(done => setTimeout(done, 300));
    assert.equal(count, 0);
    await writeFile(file, 'two');
    await promise;
  }));

test(
  'FileWatch reports a change while another file in the folder is written all the time',
  { timeout: 20_000 },
  () =>
    inFolder(async folder => {
      const file = join(folder, 'causeway.yaml');
      await writeFile(file, 'one');
      const { promise, resolve } = Promise.withResolvers<void>();
      using _watch = await FileWatch.start(file, resolve);
      const log = setInterval(() => writeFileSync(join(folder, 'log'), 'x'), 10);
      try {
        await writeFile(file, 'two');
        await promise;
      } finally {
        clearInterval(log);
      }
    }),
);
