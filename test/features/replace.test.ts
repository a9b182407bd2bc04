// A new process takes over from a running one: `causeway run --replace`.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, connectClient, hello, isClosed, type Peer, servedBy, until } from './given.ts';

const stack = new AsyncDisposableStack();
let silent: Backend;
let named: Backend;

before(async () => {
  silent = stack.use(await Backend.start({ silent: true }));
  named = stack.use(await Backend.start({ name: 'named' }));
});

after(() => stack.disposeAsync());

interface Place extends AsyncDisposable {
  readonly runDir: string;
  readonly path: string;
  config(settings?: string, listen?: string): string;
  start(args?: readonly string[], config?: string): Promise<Causeway>;
  /** A start that fails. */
  refused(config: string, args?: readonly string[]): Promise<{ code: number | null; stderr: string }>;
}

/** A folder with a runDir of its own, and what starts there. */
async function place(): Promise<Place> {
  const own = new AsyncDisposableStack();
  const dir = own.use(await tempDir());
  const runDir = join(dir.path, 'run');
  const config = (settings = '', listen = '"127.0.0.1:0"') => `
listen: [${listen}]
runDir: ${runDir}
timeouts: { drain: 1h }
clusters:
  - name: lab
    api: { hosts: [lab.test], backends: ["${silent.text}"] }
    routes: { named: { hosts: [named.test], backends: ["${named.text}"] } }
${settings}`;
  return {
    runDir,
    path: dir.path,
    config,
    start: async (args = [], text = config()) => own.use(await startCauseway({ config: text, args })),
    async refused(text, args = ['--replace']) {
      const file = join(dir.path, 'refused.yaml');
      await writeFile(file, /^admin:/m.test(text) ? text : `admin: { on: "127.0.0.1:0" }\n${text}`);
      return run(causewayBin, ['run', '-c', file, ...args]);
    },
    [Symbol.asyncDispose]: () => own.disposeAsync(),
  };
}

async function tunnel(gateway: Causeway): Promise<[client: Peer, served: Peer]> {
  const client = await connectClient(gateway.port);
  client.send(hello('lab.test'), client.address);
  const served = await until('the tunnel', () =>
    silent.connections.find(peer => peer.received().includes(client.address)),
  );
  return [client, served];
}

function said(gateway: Causeway, msg: string): Promise<LogLine> {
  return gateway.line(line => line.msg === msg);
}

async function draining(gateway: Causeway): Promise<number> {
  const { counts } = (await gateway.status()) as { counts: { draining: number } };
  return counts.draining;
}

const ended = { code: 0, signal: null };

describe('--replace', { concurrency: 2 }, () => {
  test('takes the listeners and the admin port over; the old one keeps its tunnels until they end', async () => {
    await using here = await place();
    const old = await here.start();
    const [client, served] = await tunnel(old);
    using _ = client;
    assert.equal((await said(old, 'ready')).replaced, null);
    const next = await here.start(['--replace']);
    assert.equal((await said(next, 'ready')).replaced, old.program.pid);
    assert.equal((await said(old, 'replaced')).by, next.program.pid);
    assert.deepEqual([next.ports, next.admin], [old.ports, old.admin]);
    assert.equal(await servedBy(next.port, hello('named.test')), 'named');
    await said(next, 'connection');
    assert.equal(old.connections().length, 0);
    await until('the old tunnel to be counted', async () => (await draining(next)) === 1);
    client.send('still here');
    await served.receives('still here');
    served.send('and here');
    await client.receives('and here');
    client.finish();
    served.finish();
    assert.deepEqual(await old.program.ended, ended);
    await until('no tunnel to be left', async () => (await draining(next)) === 0);
    assert.equal(old.connections()[0]?.reason, 'done');
  });

  test('one after the other, with more workers, with fewer, and with another engine', async () => {
    await using here = await place();
    let running = await here.start(['--workers', '1']);
    for (const args of [
      ['--workers', '3'],
      ['--workers', '2'],
      ['--workers', '1'],
      ['--engine', 'net'],
      [],
      ['--engine', 'epoll'],
      [],
    ]) {
      const next = await here.start(['--replace', ...args]);
      assert.equal(next.port, running.port);
      assert.deepEqual(await running.program.ended, ended);
      for (let i = 0; i < 10; i++) assert.equal(await servedBy(next.port, hello('named.test')), 'named');
      running = next;
    }
    assert.deepEqual(await readdir(here.runDir), [`${running.program.pid}.sock`]);
  });

  test('connections that arrive all the time are all served', async () => {
    await using here = await place();
    let running = await here.start();
    const { port } = running;
    const visits = { count: 0, isOver: false };
    const visitors = Array.from({ length: 8 }, async () => {
      for (; !visits.isOver; visits.count++) assert.equal(await servedBy(port, hello('named.test')), 'named');
    });
    for (let i = 0; i < 3; i++) {
      const before = visits.count;
      const next = await here.start(['--replace']);
      assert.deepEqual(await running.program.ended, ended);
      running = next;
      await until('more visits', () => visits.count > before + 100);
    }
    visits.isOver = true;
    await Promise.all(visitors);
  });

  test('opens listeners that are new, and closes those that are gone', async () => {
    await using here = await place();
    const old = await here.start([], here.config('', '"127.0.0.1:0", "127.0.0.2:0"'));
    const next = await here.start(['--replace'], here.config('', '"127.0.0.1:0", "127.0.0.3:0"'));
    assert.equal(next.ports[0], old.ports[0]);
    const on = (to: string) => ({ to, from: to });
    assert.equal(await servedBy(next.ports[1], hello('named.test'), on('127.0.0.3')), 'named');
    assert.deepEqual(await old.program.ended, ended);
    await assert.rejects(connectClient(old.ports[1], on('127.0.0.2')), { code: 'ECONNREFUSED' });
  });

  test('without anybody to replace, it starts as the first and says so', async () => {
    await using here = await place();
    await mkdir(here.runDir, { mode: 0o700 });
    // Of a process that was killed.
    await writeFile(join(here.runDir, '4194305.sock'), '');
    const gateway = await here.start(['--replace']);
    assert.equal((await said(gateway, 'ready')).replaced, null);
    await said(gateway, 'no gateway to replace; starting as the first');
    assert.deepEqual(await readdir(here.runDir), [`${gateway.program.pid}.sock`]);
  });

  test('a new process that cannot serve leaves the old one as it was', async () => {
    await using here = await place();
    const old = await here.start();
    await using taken = createServer().listen(0, '127.0.0.1');
    await until('the foreign listener', () => taken.listening);
    const { port } = taken.address() as { port: number };
    const refusals: [string, number, RegExp][] = [
      [here.config('nonsense: 1'), 1, /unknown key "nonsense"/],
      [
        here.config('', `"127.0.0.1:0", "127.0.0.1:${port}"`),
        2,
        /Cannot listen on '127\.0\.0\.1:\d+': address already in use by another process \(.*, process \d+, user \w+\)/,
      ],
      [
        here.config(`admin: { on: "127.0.0.1:${port}" }`),
        2,
        /Cannot listen on '127\.0\.0\.1:\d+ \(admin\.on\)'/,
      ],
    ];
    for (const [config, code, words] of refusals) {
      const refused = await here.refused(config);
      assert.equal(refused.code, code);
      assert.match(refused.stderr, words);
      assert.equal(await servedBy(old.port, hello('named.test')), 'named');
      assert.equal((await fetch(`${old.admin}/readyz`)).status, 200);
    }
    // And it can be replaced, and drains as ever.
    const next = await here.start(['--replace']);
    assert.deepEqual(await old.program.ended, ended);
    next.program.signal('SIGTERM');
    assert.deepEqual(await next.program.ended, ended);
    assert.ok(await isClosed(next.port));
  });

  test('killed at any moment before the old one says `replaced`, the new one leaves it serving', async () => {
    await using here = await place();
    let old = await here.start();
    const begun = performance.now();
    old = await here.start(['--replace']);
    const whole = performance.now() - begun;
    for (const share of [0.5, 0.7, 0.8, 0.9, 1]) {
      const successor = spawn(causewayBin, ['run', '-c', old.file, '--replace'], { stdio: 'ignore' });
      await delay(share * whole);
      successor.kill('SIGKILL');
      await once(successor, 'exit');
      if (!old.lines().some(line => line.msg === 'replaced')) {
        assert.equal(await servedBy(old.port, hello('named.test')), 'named', `at ${share} of the time`);
        continue;
      }
      assert.deepEqual(await old.program.ended, ended);
      old = await here.start(['--replace']);
    }
    const last = await here.start(['--replace']);
    assert.equal(await servedBy(last.port, hello('named.test')), 'named');
  });

  test('the old one killed in the middle leaves the new one serving', async () => {
    await using here = await place();
    for (const wait of [100, 300, 500]) {
      const old = await here.start();
      const { port } = old;
      const starting = here.start(['--replace'], here.config('', `"127.0.0.1:${port}"`));
      await delay(wait);
      old.program.signal('SIGKILL');
      const next = await starting;
      assert.equal(next.port, port);
      assert.equal(await servedBy(port, hello('named.test')), 'named');
      next.program.signal('SIGTERM');
      await next.program.ended;
    }
  });

  test('two at once: both take over, one after the other', async () => {
    await using here = await place();
    const old = await here.start();
    const next = await Promise.all([here.start(['--replace']), here.start(['--replace'])]);
    assert.deepEqual(await old.program.ended, ended);
    const replaced = await Promise.all(next.map(async one => (await said(one, 'ready')).replaced));
    const first = replaced.indexOf(old.program.pid);
    assert.ok(first >= 0);
    assert.equal(replaced[1 - first], next[first].program.pid);
    assert.deepEqual(await next[first].program.ended, ended);
    assert.equal(await servedBy(old.port, hello('named.test')), 'named');
  });

  test('a signal to the old one in the middle does not spoil the listeners', async () => {
    await using here = await place();
    const old = await here.start();
    const starting = here.start(['--replace'], here.config('', `"127.0.0.1:${old.port}"`));
    // By its socket; that of the old one may be gone already.
    const isOld = (name: string) => name.startsWith(`${old.program.pid}.`);
    await until('the successor to begin', async () => !(await readdir(here.runDir)).every(isOld));
    old.program.signal('SIGTERM');
    const next = await starting;
    assert.deepEqual(await old.program.ended, ended);
    for (let i = 0; i < 20; i++) assert.equal(await servedBy(next.port, hello('named.test')), 'named');
  });
});

describe('runDir', { concurrency: true }, () => {
  test('that is not private, or not a folder, is refused', async () => {
    await using here = await place();
    await writeFile(here.runDir, '');
    const file = await here.refused(here.config(), []);
    assert.deepEqual([file.code, /it is not a folder/.test(file.stderr)], [2, true]);
    await mkdir(join(here.path, 'open'));
    await chmod(join(here.path, 'open'), 0o755);
    const open = await here.refused(here.config(), ['--run-dir', join(here.path, 'open')]);
    assert.equal(open.code, 2);
    assert.match(
      open.stderr,
      /open' as runDir: its mode is 0755\. It must be a folder of this user with mode 0700/,
    );
    const foreign = await here.refused(here.config(), ['--run-dir', '/proc/1']);
    assert.equal(foreign.code, 2);
  });

  test('of a gateway that runs: a second one without --replace serves, and says that it cannot be replaced', async () => {
    await using here = await place();
    await here.start();
    const second = await here.start([], here.config('log: { level: debug }'));
    await said(second, 'another gateway has this runDir; this one cannot be replaced while it runs');
    assert.equal(await servedBy(second.port, hello('named.test')), 'named');
  });
});
