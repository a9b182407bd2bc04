// `engine: haproxy` with HAProxy 2.6 and 3.0: edits without a new process, a second process where one is needed, deaths,
// the end of ours, and a HAProxy that cannot be used.

import assert from 'node:assert/strict';
import { chmod, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { describe, test } from 'node:test';
import { haproxyBuild } from '../../testbed/haproxy-build.ts';
import { findProgram, missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, connectClient, hello, lineOf, servedBy, until, visit } from '../features/given.ts';

const versions = [
  { version: '2.6', find: async () => findProgram('haproxy') as string, skip: missingPrograms('haproxy') },
  { version: '3.0', find: haproxyBuild, skip: missingPrograms('debootstrap', 'dpkg-deb') },
] as const;

const cluster = (name: string, backends: string, more = '') =>
  `  - { name: ${name}, ${more} api: { hosts: [${name}.test], backends: [${backends}] } }\n`;

function file(clusters: string, head = ''): string {
  return `engine: haproxy\nlisten: ["127.0.0.1:0"]\n${head}clusters:\n${clusters}`;
}

async function start(haproxy: string, config: string): Promise<Causeway> {
  return startCauseway({ config, env: { CAUSEWAY_HAPROXY: haproxy } });
}

async function apply(gateway: Causeway, config: string): Promise<void> {
  const before = gateway.lines().filter(({ msg }) => msg === 'applied').length;
  await gateway.write(config);
  await until('the edit', () => gateway.lines().filter(({ msg }) => msg === 'applied').length > before);
}

interface Found {
  readonly pid: number;
  readonly parent: number;
}

/** HAProxy processes below that one: masters, then their workers. */
async function haproxiesOf(root: number): Promise<{ masters: number[]; workers: number[] }> {
  const all: Found[] = [];
  for (const name of await readdir('/proc')) {
    const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, 'latin1').catch(() => '') : '';
    const fields = /^(\d+) \((.*)\) (\S) (\d+)/.exec(stat);
    if (fields !== null && fields[3] !== 'Z') all.push({ pid: Number(fields[1]), parent: Number(fields[4]) });
  }
  const children = (parent: number) => all.filter(found => found.parent === parent).map(({ pid }) => pid);
  const isHaproxy = async (pid: number) =>
    (await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')).includes('haproxy.cfg');
  const candidates = await Promise.all(
    children(root).map(async pid => ((await isHaproxy(pid)) ? [pid] : [])),
  );
  const masters = candidates.flat();
  return { masters, workers: masters.flatMap(children) };
}

const isAlive = (pid: number) =>
  readFile(`/proc/${pid}/stat`, 'latin1').then(
    text => !/\) Z/.test(text),
    () => false,
  );

for (const { version, find, skip } of versions) {
  describe(`HAProxy ${version}`, { skip }, () => {
    test('an edit goes to the running process, and open connections stay', async () => {
      const haproxy = await find();
      await using a = await Backend.start({ name: 'a' });
      await using b = await Backend.start({ name: 'b' });
      await using gateway = await start(haproxy, file(cluster('one', `"${a.text}"`)));
      const before = await haproxiesOf(gateway.program.pid);
      assert.equal(before.masters.length, 1);
      assert.equal(before.workers.length, 1);
      using client = await connectClient(gateway.port);
      client.send(hello('one.test'));
      await client.receives('a\n');

      await apply(gateway, file(cluster('one', `"${b.text}"`) + cluster('two', `"${a.text}"`)));
      assert.equal(await servedBy(gateway.port, hello('one.test')), 'b');
      assert.equal(await servedBy(gateway.port, hello('two.test')), 'a');
      assert.deepEqual(await haproxiesOf(gateway.program.pid), before);
      client.send('more');
      await (await a.accepted(0)).receives('more');
      client.finish();
      const { backend, reason, cluster: of, route } = await lineOf(gateway, client);
      assert.deepEqual([backend, reason, of, route], [a.text, 'done', 'one', 'api']);
      assert.equal(await gateway.metric('causeway_connections_total', { cluster: 'one', reason: 'done' }), 2);
    });

    test('other timeouts need a second process, beside which the first keeps its connections', async () => {
      const haproxy = await find();
      await using a = await Backend.start({ name: 'a' });
      await using gateway = await start(haproxy, file(cluster('one', `"${a.text}"`)));
      const { workers: before } = await haproxiesOf(gateway.program.pid);
      using client = await connectClient(gateway.port);
      client.send(hello('one.test'));
      await client.receives('a\n');
      await apply(gateway, file(cluster('one', `"${a.text}"`), 'timeouts: { connect: 2s }\n'));
      const reload = await gateway.line(({ msg }) => msg === 'haproxy reloaded');
      assert.equal(reload.reloads, 1);
      assert.equal(await servedBy(gateway.port, hello('one.test')), 'a');
      assert.equal(await isAlive(before[0]), true);
      client.send('still here');
      await (await a.accepted(0)).receives('still here');
      client.finish();
      await client.untilEnd();
      await until('the end of the first process', async () => !(await isAlive(before[0])));
    });

    test('a bad file is refused, and the old one keeps serving', async () => {
      const haproxy = await find();
      await using a = await Backend.start({ name: 'a' });
      await using gateway = await start(haproxy, file(cluster('one', `"${a.text}"`)));
      await gateway.write(
        file(cluster('one', `"${a.text}"`), 'tunnel: { hosts: [t.test], certificates: [] }\n'),
      );
      await gateway.line(({ level }) => level === 'error');
      assert.equal(await servedBy(gateway.port, hello('one.test')), 'a');
    });

    for (const whom of ['workers', 'masters'] as const) {
      test(`it is started again when one of its ${whom} is killed`, async () => {
        const haproxy = await find();
        await using a = await Backend.start({ name: 'a' });
        await using gateway = await start(haproxy, file(cluster('one', `"${a.text}"`)));
        const { workers, [whom]: pids } = await haproxiesOf(gateway.program.pid);
        process.kill(pids[0], 'SIGKILL');
        const death = await gateway.line(({ msg, thread }) => msg !== 'ready' && thread === 'haproxy');
        assert.equal(death.level, 'error');
        // New connections wait in the queue of our own socket.
        assert.equal(await servedBy(gateway.port, hello('one.test')), 'a');
        await until('readyz', async () => (await fetch(`${gateway.admin}/readyz`)).status === 200);
        assert.equal(await isAlive(workers[0]), false);
      });
    }

    test('another one takes its place when it hangs in an edit, and nothing of it is left', async () => {
      const haproxy = await find();
      await using a = await Backend.start({ name: 'a' });
      const head = 'timeouts: { drain: 1s }\n';
      await using gateway = await start(haproxy, file(cluster('one', `"${a.text}"`), head));
      const { workers } = await haproxiesOf(gateway.program.pid);
      process.kill(workers[0], 'SIGSTOP');
      await gateway.write(file(cluster('two', `"${a.text}"`), head));
      const { why } = await gateway.line(({ msg }) => msg === 'haproxy reloaded');
      assert.match(String(why), /did not answer/);
      assert.equal(await servedBy(gateway.port, hello('two.test')), 'a');
      await until('the end of the first one', async () => !(await isAlive(workers[0])));
    });

    // One version suffices for a test that waits for 40 s.
    if (version === '2.6')
      test('another one takes its place when it has not answered for 30 s', async () => {
        await using a = await Backend.start({ name: 'a' });
        await using gateway = await start(await find(), file(cluster('one', `"${a.text}"`)));
        const { masters, workers } = await haproxiesOf(gateway.program.pid);
        for (const pid of [...masters, ...workers]) process.kill(pid, 'SIGSTOP');
        const readyz = async () => (await fetch(`${gateway.admin}/readyz`)).text();
        await until('readyz', async () => (await readyz()).includes('HAProxy does not answer'), 30_000);
        await until(
          'another one',
          () => gateway.lines().some(({ msg }) => msg === 'haproxy reloaded'),
          90_000,
        );
        assert.equal(await servedBy(gateway.port, hello('one.test')), 'a');
        for (const pid of [...masters, ...workers]) await until('the end', async () => !(await isAlive(pid)));
        assert.equal(await readyz(), 'ok');
      });

    test('nothing of it is left when we are killed', async () => {
      const haproxy = await find();
      await using a = await Backend.start({ name: 'a' });
      await using gateway = await start(haproxy, file(cluster('one', `"${a.text}"`)));
      const { masters, workers } = await haproxiesOf(gateway.program.pid);
      process.kill(gateway.program.pid, 'SIGKILL');
      for (const pid of [...masters, ...workers])
        await until(`the end of ${pid}`, async () => !(await isAlive(pid)));
    });

    test('another one takes its place when its folder is gone, and open connections stay', async () => {
      const haproxy = await find();
      await using a = await Backend.start({ name: 'a' });
      await using gateway = await start(haproxy, file(cluster('one', `"${a.text}"`)));
      using client = await connectClient(gateway.port);
      client.send(hello('one.test'));
      await client.receives('a\n');
      const { masters } = await haproxiesOf(gateway.program.pid);
      const command = await readFile(`/proc/${masters[0]}/cmdline`, 'latin1');
      const config = command.split('\0').find(word => word.endsWith('/haproxy.cfg')) as string;
      await rm(dirname(dirname(config)), { recursive: true });
      const { why } = await gateway.line(({ msg }) => msg === 'haproxy reloaded');
      assert.match(String(why), /^its folder .* is gone$/);
      await apply(gateway, file(cluster('two', `"${a.text}"`)));
      assert.equal(await servedBy(gateway.port, hello('two.test')), 'a');
      client.send('more');
      await (await a.accepted(0)).receives('more');
    });

    test('hostile names cannot forge a field of the log', async () => {
      const haproxy = await find();
      await using a = await Backend.start({ name: 'a' });
      await using gateway = await start(haproxy, file(cluster('one', `"${a.text}"`)));
      for (const name of ['one.test - - done', 'x" "reason":"done', 'a\nC l0 1.2.3.4 5']) {
        const { address, since } = await visit(gateway.port, hello(name));
        const { reason, host, cluster: of } = await lineOf(gateway, { address, since });
        assert.deepEqual([reason, host, of], ['no-sni', null, null]);
      }
    });
  });
}

describe('a HAProxy that cannot be used ends run with one sentence', () => {
  async function exit(
    haproxy: string,
    more: Readonly<Record<string, string>> = {},
  ): Promise<{ code: number | null; stderr: string }> {
    await using dir = await tempDir();
    const config = dir.file('causeway.yaml');
    await writeFile(config, `${file('  []\n')}admin: { on: "127.0.0.1:0" }\n`);
    const { code, stderr } = await run(causewayBin, ['run', '-c', config], {
      env: { CAUSEWAY_HAPROXY: haproxy, ...more },
    });
    return { code, stderr: stderr.toString() };
  }

  async function fake(script: string, use: (path: string) => Promise<void>): Promise<void> {
    await using dir = await tempDir();
    const path = dir.file('haproxy');
    await writeFile(path, `#!/bin/sh\n${script}\n`);
    await chmod(path, 0o755);
    await use(path);
  }

  test('it is missing', async () => {
    const { code, stderr } = await exit('/nowhere/haproxy');
    assert.equal(code, 2);
    assert.match(
      stderr,
      /Cannot start HAProxy '\/nowhere\/haproxy': not found; install haproxy 2\.6 or newer/,
    );
  });

  test('its files cannot be written', { skip: missingPrograms('haproxy') }, async () => {
    const { code, stderr } = await exit('haproxy', { TMPDIR: '/nowhere' });
    assert.equal(code, 2);
    assert.match(stderr, /^Cannot write the files of HAProxy: .*; TMPDIR chooses the folder/);
  });

  test('it is too old', () =>
    fake('echo "HA-Proxy version 2.2.9-2 2021/01/14"', async path => {
      const { code, stderr } = await exit(path);
      assert.equal(code, 2);
      assert.match(stderr, /HAProxy 2\.2\.9-2 is too old: 2\.6 or newer is needed/);
    }));

  test('it does not accept its configuration', () =>
    fake(
      'case $1 in -vv) echo "HAProxy version 3.0.1 2024/01/01"; echo "Built with Lua version : Lua 5.4.6" ;; *) echo "[ALERT] (1) : config : out of luck" >&2; exit 1 ;; esac',
      async path => {
        const { code, stderr } = await exit(path);
        assert.equal(code, 2);
        assert.match(stderr, /HAProxy 3\.0\.1 does not accept its configuration \(code 1\): .*out of luck/);
      },
    ));
});
