// A serving process can always be ended, and ends itself after a fault on the control thread, whatever is stuck
// and whenever the signal comes. Faults are injected by a module that is imported first (NODE_OPTIONS) and acts
// on SIGCONT.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../testbed/free-port.ts';
import { startProgram } from '../../testbed/program.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, connectClient, hello, isClosed, lineOf, type Peer, until } from './given.ts';

const FAULT = 70;

let backend: Backend;
const stack = new AsyncDisposableStack();

before(async () => {
  backend = stack.use(await Backend.start({ silent: true }));
});

after(() => stack.disposeAsync());

function configFor(port: number): string {
  return `
listen: ["127.0.0.1:${port}"]
clusters: [{ name: lab, api: { hosts: [lab.test], backends: ["${backend.text}"] } }]
`;
}

/** Starts a gateway with a module that runs this code on SIGCONT, on the control thread. */
function startWith(onSignal: string): Promise<Causeway> {
  const module = `
    import { isMainThread } from 'node:worker_threads';
    if (isMainThread) process.once('SIGCONT', async () => { ${onSignal} });`;
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(module)}` };
  return startCauseway({ config: configFor(0), env });
}

async function tunnel(gateway: Causeway): Promise<Peer> {
  const client = await connectClient(gateway.port);
  client.send(hello('lab.test'), client.address);
  await until(`${client.address} to be served`, () =>
    backend.connections.find(peer => peer.received().includes(client.address)),
  );
  return client;
}

describe('the process ends', { concurrency: true }, () => {
  for (const [what, onSignal] of [
    ['an exception', "throw new Error('injected');"],
    ['an exception in a callback', "setImmediate(() => { throw new Error('injected'); });"],
    ['an unhandled rejection', "Promise.reject(new Error('injected'));"],
  ]) {
    test(`on its own, with code ${FAULT}, after ${what} on the control thread`, async () => {
      await using gateway = await startWith(onSignal);
      using client = await tunnel(gateway);
      gateway.program.signal('SIGCONT');
      const fault = await gateway.line(line => line.level === 'fatal');
      assert.match(JSON.stringify(fault.err), /injected.*stack/);
      // Open connections have a moment to finish; new ones are not accepted.
      await until('nobody to listen', () => isClosed(gateway.port));
      assert.deepEqual(await gateway.program.ended, { code: FAULT, signal: null });
      assert.equal((await lineOf(gateway, client)).reason, 'shutdown');
    });
  }

  test('when the control thread exits, although workers wait without limit', async () => {
    await using gateway = await startWith('process.exit(3);');
    using _ = await tunnel(gateway);
    gateway.program.signal('SIGCONT');
    assert.deepEqual(await gateway.program.ended, { code: 3, signal: null });
  });

  test('after a drain, although every thread of the pool is stuck, as with a resolver that does not answer', async () => {
    await using dir = await tempDir();
    const pipe = dir.file('pipe');
    execFileSync('mkfifo', [pipe]);
    // Opening a pipe for reading blocks until a writer opens it, which never happens.
    const open = `const fs = await import('node:fs'); for (let i = 0; i < 8; i++) fs.open('${pipe}', 'r', () => {});`;
    await using gateway = await startWith(open);
    using client = await tunnel(gateway);
    gateway.program.signal('SIGCONT');
    // The log cannot be written either.
    await delay(100);
    client.finish();
    gateway.program.signal('SIGTERM');
    await until('the end of the drain', () => isClosed(gateway.port));
    gateway.program.signal('SIGINT');
    assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
  });

  test('on SIGTERM, although nobody reads its log', async () => {
    await using dir = await tempDir();
    const [port, admin] = [await freePort(), await freePort()];
    const file = dir.file('causeway.yaml');
    await writeFile(file, `admin: { on: "127.0.0.1:${admin}" }\n${configFor(port)}`);
    const engine = process.env.CAUSEWAY_TEST_ENGINE ?? 'auto';
    const child = spawn(causewayBin, ['run', '-c', file, '--engine', engine], {
      env: { ...process.env, TMPDIR: dir.path },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const exited = once(child, 'exit');
    try {
      const isReady = async () => (await fetch(`http://127.0.0.1:${admin}/readyz`)).ok;
      await until('it to be ready', () => isReady().catch(() => false));
      // More lines than the pipe holds.
      for (let i = 0; i < 1500; i++) {
        using client = await connectClient(port);
        client.send('\0nonsense');
        await client.untilEnd();
      }
      child.kill('SIGTERM');
      assert.deepEqual(await exited, [0, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('on SIGTERM at any moment of its startup', async () => {
    await using dir = await tempDir();
    const file = dir.file('causeway.yaml');
    await writeFile(file, `admin: { on: "off" }\n${configFor(0)}`);
    const engine = process.env.CAUSEWAY_TEST_ENGINE ?? 'auto';
    for (let step = 0; step < 12; step++) {
      await using program = await startProgram({
        command: causewayBin,
        args: ['run', '-c', file, '--engine', engine],
        // After a signal during startup it may exit without removing its folder of sockets.
        env: { TMPDIR: dir.path },
        ready: { probe: async () => true },
      });
      await delay(step * 70);
      program.signal('SIGTERM');
      const { code, signal } = await program.ended;
      // Before it has handlers the signal itself ends it.
      assert.ok(code === 0 || signal === 'SIGTERM', `${code} ${signal}`);
    }
  });
});
