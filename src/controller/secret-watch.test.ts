import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { SecretWatch } from './secret-watch.ts';

const ONE = 'the first secret, of at least 32 bytes';
const TWO = 'the second secret, of at least 32 bytes';

/** With `secret` beside the file; `used` resolves with the secrets that the gateway gets next. */
async function given(
  work: (it: {
    readonly watch: SecretWatch;
    readonly config: Config;
    readonly secret: string;
    readonly lines: string[];
    readonly reported: string[][];
    used(): Promise<string[]>;
  }) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'causeway-secrets-'));
  const lines: string[] = [];
  const reported: string[][] = [];
  let next = Promise.withResolvers<string[]>();
  const log = (fields: { error?: string }, msg: string) => lines.push(`${msg}: ${fields.error ?? ''}`);
  const logger = { info: log, error: log } as unknown as Logger;
  using watch = new SecretWatch(join(folder, 'causeway.yaml'), logger, async secrets => {
    reported.push(secrets.map(secret => Buffer.from(secret).toString()));
    next.resolve(reported.at(-1) as string[]);
    next = Promise.withResolvers();
  });
  const config = { identity: { secretFile: './secret', required: false } } as Config;
  try {
    await work({ watch, config, secret: join(folder, 'secret'), lines, reported, used: () => next.promise });
  } finally {
    await rm(folder, { recursive: true });
  }
}

test('SecretWatch.load() resolves paths beside causeway.yaml, and throws for a bad file', () =>
  given(async ({ watch, config, secret }) => {
    await assert.rejects(watch.load(config), {
      code: 'ERR_CONFIG',
      message: `${secret.replace(/secret$/, 'causeway.yaml')}: identity.secretFile: ${secret}: there is no such file`,
    });
    await writeFile(secret, ONE);
    const loaded = await watch.load(config);
    assert.deepEqual(loaded?.path, secret);
    assert.equal(await watch.load({} as Config), undefined);
  }));

test('SecretWatch.follow() reports a change, also one between reading and watching', () =>
  given(async ({ watch, config, secret, reported, used }) => {
    await writeFile(secret, ONE);
    const loaded = await watch.load(config);
    await writeFile(secret, TWO);
    await watch.follow(loaded);
    assert.deepEqual(reported, [[TWO]]);
    const change = used();
    await writeFile(secret, `${ONE}\n${TWO}\n`);
    assert.deepEqual(await change, [ONE, TWO]);
  }));

test('SecretWatch reports nothing when the file is rewritten with the same secrets', () =>
  given(async ({ watch, config, secret, reported, used }) => {
    await writeFile(secret, ONE);
    await watch.follow(await watch.load(config));
    await writeFile(secret, `\n${ONE}\n`);
    await watch.follow(await watch.load(config));
    const change = used();
    await writeFile(secret, TWO);
    assert.deepEqual(await change, [TWO]);
    assert.deepEqual(reported, [[TWO]]);
  }));

test('SecretWatch keeps its secrets when the file goes bad, and takes the next good ones', () =>
  given(async ({ watch, config, secret, lines, used }) => {
    await writeFile(secret, ONE);
    const loaded = await watch.load(config);
    await watch.follow(loaded);
    await writeFile(secret, 'short');
    const again = await watch.load(config);
    assert.deepEqual(again?.secrets, loaded?.secrets);
    await watch.follow(again);
    assert.match(lines[0], /^secret file refused; keeping the previous secrets: line 1: /);
    const change = used();
    await writeFile(secret, TWO);
    assert.deepEqual(await change, [TWO]);
  }));

test('SecretWatch stops watching when the configuration names no file', () =>
  given(async ({ watch, config, secret, reported }) => {
    await writeFile(secret, ONE);
    await watch.follow(await watch.load(config));
    await watch.follow(undefined);
    await writeFile(secret, TWO);
    const loaded = await watch.load(config);
    await watch.follow(loaded);
    assert.deepEqual(reported, []);
    assert.equal(Buffer.from(loaded?.secrets[0] ?? []).toString(), TWO);
  }));

test('SecretWatch that is disposed of while it begins to watch leaves nothing open', () =>
  given(async ({ watch, config, secret }) => {
    await writeFile(secret, ONE);
    const loaded = await watch.load(config);
    const watchers = () => process.getActiveResourcesInfo().filter(kind => kind === 'FSEventWrap').length;
    const before = watchers();
    const following = watch.follow(loaded);
    watch[Symbol.dispose]();
    await following;
    // A closed one counts until the next turns of the event loop.
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    assert.equal(watchers(), before);
  }));
