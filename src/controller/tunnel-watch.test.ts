import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { copyFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import type { Logger } from 'pino';
import { certificateFor } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import type { Config } from '../config/config.ts';
import type { TunnelEnd } from '../gateway/streams/tls-config.ts';
import { TunnelWatch, tunnelEnd } from './tunnel-watch.ts';

const skip = missingPrograms('openssl');
const config = {
  tunnel: {
    hosts: ['t.test'],
    certificates: [
      { certFile: 'one.crt', keyFile: 'one.key' },
      { certFile: 'two.crt', keyFile: 'two.key' },
    ],
  },
} as unknown as Config;

interface Given {
  readonly watch: TunnelWatch;
  file(name: string): string;
  /** Writes a pair for that name. */
  put(base: 'one' | 'two', name: string): Promise<void>;
  /** The next event: the names of the certificates in use, or a log line. */
  next(): Promise<string>;
}

async function given(work: (it: Given) => Promise<void>): Promise<void> {
  await using dir = await tempDir();
  let next = Promise.withResolvers<string>();
  const report = (event: string) => {
    next.resolve(event);
    next = Promise.withResolvers();
  };
  const logger = {
    info: () => {},
    error: ({ error }: { error: string }, msg: string) => report(`${msg}: ${error}`),
  } as unknown as Logger;
  using watch = new TunnelWatch(dir.file('causeway.yaml'), logger, async tunnel => report(namesIn(tunnel)));
  await work({
    watch,
    file: dir.file,
    async put(base, name) {
      const { certFile, keyFile } = await certificateFor(name);
      await copyFile(certFile, dir.file(`${base}.crt`));
      await copyFile(keyFile, dir.file(`${base}.key`));
    },
    next: () => next.promise,
  });
}

function namesIn({ certificates }: TunnelEnd): string {
  return certificates.map(({ cert }) => new X509Certificate(cert).subjectAltName).join(' ');
}

test('TunnelWatch.load() resolves paths beside causeway.yaml, and reports every bad pair', { skip }, () =>
  given(async ({ watch, file, put }) => {
    await put('one', 'a.test');
    await assert.rejects(watch.load(config), {
      code: 'ERR_CONFIG',
      message: `${file('causeway.yaml')}: tunnel.certificates[1].certFile: cannot be read: ${file('two.crt')}: there is no such file`,
    });
    await put('two', 'b.test');
    const loaded = await watch.load(config);
    assert.ok(loaded !== undefined);
    assert.equal(namesIn(tunnelEnd(loaded)), 'DNS:a.test DNS:b.test');
    assert.deepEqual(tunnelEnd(loaded).hosts, ['t.test']);
    assert.equal(await watch.load({} as Config), undefined);
  }),
);

test(
  'TunnelWatch.follow() passes all certificates when one is renewed, and keeps one that goes bad',
  { skip },
  () =>
    given(async ({ watch, file, put, next }) => {
      await put('one', 'a.test');
      await put('two', 'b.test');
      await watch.follow(await watch.load(config));
      const renewed = next();
      await put('two', 'c.test');
      assert.equal(await renewed, 'DNS:a.test DNS:c.test');
      const refused = next();
      await writeFile(file('two.key'), 'nothing');
      assert.match(await refused, /^tunnel certificate refused; keeping the previous one: keyFile: /);
      const again = next();
      await put('two', 'd.test');
      assert.equal(await again, 'DNS:a.test DNS:d.test');
    }),
);

test('TunnelWatch.load() keeps a pair in use when its files have gone bad', { skip }, () =>
  given(async ({ watch, file, put }) => {
    await put('one', 'a.test');
    await put('two', 'b.test');
    await watch.follow(await watch.load(config));
    await writeFile(file('two.key'), 'nothing');
    const loaded = await watch.load(config);
    assert.equal(loaded && namesIn(tunnelEnd(loaded)), 'DNS:a.test DNS:b.test');
  }),
);

test('TunnelWatch stops watching when the configuration has no tunnel, or when disposed', { skip }, () =>
  given(async ({ watch, put, next }) => {
    await put('one', 'a.test');
    await put('two', 'b.test');
    const loaded = await watch.load(config);
    await watch.follow(loaded);
    await watch.follow(undefined);
    await put('one', 'c.test');
    // The first report comes from the next configuration that is followed.
    const reported = next();
    await watch.follow(loaded);
    assert.equal(await reported, 'DNS:c.test DNS:b.test');
  }),
);
