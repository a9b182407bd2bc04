// Under a supervisor that speaks systemd's protocols: the states of the process, and sockets that are open before it.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { logLines } from '../../testbed/log-lines.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Program, startProgram } from '../../testbed/program.ts';
import { causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, hello, servedBy, until } from './given.ts';

const stack = new AsyncDisposableStack();
let backend: Backend;

before(async () => {
  backend = stack.use(await Backend.start({ name: 'named' }));
});

after(() => stack.disposeAsync());

const config = (listen: string, more = '') => `
listen: [${listen}]
clusters: [{ name: lab, api: { hosts: [lab.test], backends: ["${backend.text}"] } }]
${more}`;

/** Prints each datagram as one line. */
const LISTENER = `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1].replace('@', chr(0)))
print('bound', flush=True)
while True: print(s.recv(4096).decode().replace(chr(10), ' '), flush=True)
`;

async function startSupervisor(path: string): Promise<Program> {
  return startProgram({
    command: 'python3',
    args: ['-c', LISTENER, path],
    ready: { log: /^bound$/m },
    stopSignal: 'SIGKILL',
  });
}

describe('NOTIFY_SOCKET', { concurrency: true, skip: missingPrograms('python3') }, () => {
  test('hears READY, RELOADING, WATCHDOG and STOPPING', async () => {
    await using dir = await tempDir();
    for (const path of [dir.file('notify'), `@causeway-test-${process.pid}`]) {
      await using supervisor = await startSupervisor(path);
      const hears = (words: RegExp) => until(String(words), () => words.test(supervisor.log()));
      await using gateway = await startCauseway({
        config: config('"127.0.0.1:0"'),
        env: { NOTIFY_SOCKET: path, WATCHDOG_USEC: '100000' },
        args: ['--run-dir', dir.file('run')],
      });
      await hears(/^READY=1$/m);
      await hears(/^WATCHDOG=1$/m);
      gateway.program.signal('SIGHUP');
      await hears(/^RELOADING=1 MONOTONIC_USEC=\d+$/m);
      await hears(/RELOADING[^]*^READY=1$/m);
      gateway.program.signal('SIGTERM');
      await hears(/^STOPPING=1$/m);
      assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
    }
  });

  test('hears MAINPID from a process that takes over, and nothing more from the old one', async () => {
    await using dir = await tempDir();
    const path = dir.file('notify');
    await using supervisor = await startSupervisor(path);
    const env = { NOTIFY_SOCKET: path };
    const args = ['--run-dir', dir.file('run')];
    await using old = await startCauseway({ config: config('"127.0.0.1:0"'), env, args });
    await using next = await startCauseway({
      config: config('"127.0.0.1:0"'),
      env,
      args: ['--replace', ...args],
    });
    assert.deepEqual(await old.program.ended, { code: 0, signal: null });
    await until(
      'the main process',
      () => supervisor.log().endsWith('READY=1\n') && supervisor.log().includes('MAINPID'),
    );
    assert.deepEqual(supervisor.log().trim().split('\n'), [
      'bound',
      'READY=1',
      `MAINPID=${next.program.pid}`,
      'READY=1',
    ]);
  });
});

describe('LISTEN_FDS', { skip: missingPrograms('systemd-socket-activate') }, () => {
  test('listeners and the admin side use the sockets with their addresses', async () => {
    await using dir = await tempDir();
    const [first, second, admin, unused] = [
      await freePort(),
      await freePort(),
      await freePort(),
      await freePort(),
    ];
    const file = dir.file('causeway.yaml');
    const listen = `"127.0.0.1:${first}", ":${second}"`;
    await writeFile(file, config(listen, `admin: { on: "127.0.0.1:${admin}" }\nrunDir: ${dir.file('run')}`));
    const sockets = [`127.0.0.1:${first}`, `[::]:${second}`, `127.0.0.1:${admin}`, `127.0.0.1:${unused}`];
    await using program = await startProgram({
      command: 'systemd-socket-activate',
      args: [...sockets.flatMap(socket => ['-l', socket]), causewayBin, 'run', '-c', file, '--workers', '3'],
      ready: { log: /Listening on/ },
      stopSignal: 'SIGTERM',
    });
    // The first connection starts it.
    assert.equal(await servedBy(first, hello('lab.test')), 'named');
    assert.equal(await servedBy(second, hello('lab.test')), 'named');
    assert.equal(await servedBy(second, hello('lab.test'), { to: '::1' }), 'named');
    assert.equal((await fetch(`http://127.0.0.1:${admin}/readyz`)).status, 200);
    const { line } = logLines(program);
    const warning = await line(({ msg }) => msg === 'socket from LISTEN_FDS matches no listener; not used');
    assert.equal(warning.socket, `127.0.0.1:${unused}`);
  });
});
