// `causeway demo` as a user sees it: everything it claims, every command it prints, and nothing left behind.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { type Program, startProgram } from '../../testbed/program.ts';
import { run } from '../../testbed/run.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { isClosed, until } from './given.ts';

const CANNOT_START = 2;
const ENDED = 'The demo has ended and ./demo-out was removed\n';
/** curl's exit code for a failed handshake, as after a TLS alert. */
const CURL_SSL_CONNECT_ERROR = 35;

/** Something that never ends by itself, as a stuck thread would not. */
const STUCK = `import { isMainThread } from 'node:worker_threads'; if (isMainThread) setInterval(() => {}, 1000);`;

test('demo --once proves every way in, ends although something is stuck, and leaves nothing behind', async () => {
  await using dir = await tempDir();
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(STUCK)}` };
  const { code, stdout, stderr } = await run(causewayBin, ['demo', '--once'], { cwd: dir.path, env });
  const lines = stdout.toString().trimEnd().split('\n');
  const end = lines.pop() ?? '';
  assert.deepEqual(
    lines.filter(line => !line.startsWith('✓ ')),
    [],
    stderr,
  );
  assert.ok(lines.length >= 34, `only ${lines.length} lines`);
  for (const uplink of ['proxy', 'connect', 'tunnel', 'terminate'])
    assert.ok(
      lines.some(line => line.includes(`agent of managed1 by ${uplink} `)),
      uplink,
    );
  assert.ok(lines.some(line => line.includes('a forged id is refused')));
  assert.match(end, new RegExp(`^all ${lines.length} passed in \\d+\\.\\d s$`));
  assert.deepEqual([code, stderr], [0, '']);
  assert.deepEqual(readdirSync(dir.path), []);
});

test('demo prints commands that work unchanged, and ends on Ctrl-C', async () => {
  await using dir = await tempDir();
  const port = await freePort();
  await using demo = await startDemo(dir.path, port);
  const text = demo.log();
  assert.ok(!text.includes('\x1b'), 'no colours where there is no terminal');

  const commands = text.split('\n').filter(line => /^ {4}(curl|kubectl) /.test(line));
  assert.ok(commands.length >= 12, `only ${commands.length} commands`);
  for (const command of commands) {
    const watches = command.includes('--watch');
    // A watch never ends; by then it must have listed the objects.
    const { code, stdout, stderr } = await run('sh', ['-c', watches ? `timeout 3 ${command}` : command], {
      cwd: dir.path,
      env: { KUBECACHEDIR: dir.file('cache') },
    });
    const wanted = watches ? 124 : command.includes('nobody') ? CURL_SSL_CONNECT_ERROR : 0;
    assert.equal(code, wanted, `${command}\n${stdout}\n${stderr}`);
    const [cluster] = /hub|managed\d/.exec(command) ?? [];
    if (cluster !== undefined && !watches) assert.match(stdout.toString(), new RegExp(cluster));
  }

  const dashboard = /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
  assert.equal((await fetch(`${dashboard}/readyz`)).status, 200);
  await until('traffic of its own', async () => {
    const metrics = await (await fetch(`${dashboard}/metrics`)).text();
    return /^causeway_connections_total\{.*reason="done"\} [1-9]/m.test(metrics);
  });

  demo.signal('SIGINT');
  assert.deepEqual(await demo.ended, { code: 0, signal: null });
  assert.equal(demo.log().slice(text.length), ENDED);
  assert.equal(existsSync(dir.file('demo-out')), false);
  assert.ok(await isClosed(port));
});

test('demo that is interrupted while it starts prints one line', async () => {
  await using dir = await tempDir();
  await using demo = await startProgram({
    command: causewayBin,
    args: ['demo', '--port', String(await freePort())],
    cwd: dir.path,
    ready: { probe: async () => existsSync(dir.file('demo-out')) },
  });
  demo.signal('SIGINT');
  assert.deepEqual(await demo.ended, { code: 0, signal: null });
  // On a busy machine it may have been ready by then, and have printed what to try.
  assert.match(demo.log(), new RegExp(`^(?:[^]*Press Ctrl-C to end[^]*\\n)?${ENDED}$`));
  assert.deepEqual(readdirSync(dir.path), []);
});

test('demo ends on SIGTERM, and a second demo in its directory does not start', async () => {
  await using dir = await tempDir();
  await using first = await startDemo(dir.path, await freePort());
  const second = await run(causewayBin, ['demo', '--once'], { cwd: dir.path });
  assert.equal(second.code, CANNOT_START);
  assert.match(second.stderr, /^Cannot use \.\/demo-out: a demo with process id \d+ is using it\. .*\n$/);
  assert.ok(existsSync(dir.file('demo-out/causeway.yaml')));
  first.signal('SIGTERM');
  assert.deepEqual(await first.ended, { code: 0, signal: null });
  assert.deepEqual(readdirSync(dir.path), []);
});

test('demo uses another dashboard port if the usual one is taken', async () => {
  await using one = await tempDir();
  await using other = await tempDir();
  // Started at the same time, both find the usual port free.
  const demos = await Promise.all([
    startDemo(one.path, await freePort()),
    startDemo(other.path, await freePort()),
  ]);
  await using stack = new AsyncDisposableStack();
  const dashboards = demos.map(demo => /http:\/\/127\.0\.0\.1:\d+/.exec(stack.use(demo).log())?.[0]);
  assert.equal(new Set(dashboards).size, 2);
  for (const dashboard of dashboards) assert.equal((await fetch(`${dashboard}/readyz`)).status, 200);
});

test('demo does not touch a demo-out that is not its own, and does not start', async () => {
  await using dir = await tempDir();
  mkdirSync(dir.file('demo-out'));
  writeFileSync(dir.file('demo-out/mine'), 'x');
  const { code, stdout, stderr } = await run(causewayBin, ['demo', '--once'], { cwd: dir.path });
  assert.deepEqual([code, stdout.toString()], [CANNOT_START, '']);
  assert.match(stderr, /^Cannot use \.\/demo-out: it already exists and is not from a demo\. .*\n$/);
  assert.deepEqual(readdirSync(dir.file('demo-out')), ['mine']);
});

test('demo reports that its port is taken, and which to try', async () => {
  await using dir = await tempDir();
  const port = await freePort();
  await using server = createServer().listen({ host: '127.0.0.1', port });
  await until('the listener', () => server.listening);
  const { code, stderr } = await run(causewayBin, ['demo', '--port', String(port)], { cwd: dir.path });
  assert.equal(code, CANNOT_START);
  const owner = ` \\(.*, process ${process.pid}, user \\w+\\)`;
  const sentence = `^Cannot listen on '127\\.0\\.0\\.1:${port}': address already in use by another process${owner}; stop it or choose another port: causeway demo --port ${port + 1000}\n$`;
  assert.match(stderr, new RegExp(sentence));
  assert.deepEqual(readdirSync(dir.path), []);
});

test('demo refuses an invalid port and unknown flags', async () => {
  for (const args of [['--port', '0'], ['--port', '70000'], ['--port', 'x'], ['--twice']]) {
    const { code, stderr } = await run(causewayBin, ['demo', ...args]);
    assert.equal(code, 64, args.join(' '));
    assert.match(stderr, /^causeway: /);
  }
});

function startDemo(cwd: string, port: number): Promise<Program> {
  return startProgram({
    command: causewayBin,
    args: ['demo', '--port', String(port)],
    cwd,
    ready: { log: /Press Ctrl-C to end/ },
  });
}
