import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { startProgram } from './program.ts';

/** A shell script that first prints that it is up. `wait` after a job lets traps run at once. */
const script = (text: string) => ({
  command: 'sh',
  args: ['-c', `echo up; ${text}`],
  ready: { log: /^up$/m },
});
const SLEEP = 'sleep 1000 & wait';

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** An orphan is a zombie until init has waited for it. */
async function gone(pid: number): Promise<void> {
  while (isAlive(pid)) await delay(5);
}

test('startProgram() waits for the log, keeps it, and ends the program with the scope', async () => {
  let pid: number;
  {
    await using program = await startProgram(script(`echo second >&2; ${SLEEP}`));
    pid = program.pid;
    await program.logged(/^second$/m);
    assert.equal(program.log(), 'up\nsecond\n');
    assert.equal(program.exit(), undefined);
    assert.ok(isAlive(pid));
  }
  assert.ok(!isAlive(pid));
});

test('startProgram() waits for a port', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const ready = { port: (server.address() as AddressInfo).port };
  await using program = await startProgram({ ...script(SLEEP), ready });
  await accepted;
  assert.equal(program.exit(), undefined);
  server.close();
});

test('startProgram() waits for a probe', async () => {
  let asked = 0;
  await using program = await startProgram({ ...script(SLEEP), ready: { probe: async () => ++asked === 3 } });
  assert.equal(asked, 3);
  assert.equal(program.exit(), undefined);
});

test('startProgram() reports how a program died and its last lines', async () => {
  const dies = startProgram({ ...script('echo no such option >&2; exit 3'), ready: { log: /never/ } });
  await assert.rejects(
    dies,
    /^Error: sh ended \(code 3\) and did not print \/never\/\. It printed:\nup\nno such option$/,
  );
});

test('startProgram() stops a program that is not ready in time', async () => {
  let pid = 0;
  const ready = { log: /never/ };
  const slow = startProgram({ ...script(`echo $$; ${SLEEP}`), ready, readyTimeoutMs: 200 }).catch(error => {
    pid = Number(/^\d+$/m.exec(error.message)?.[0]);
    throw error;
  });
  await assert.rejects(slow, /sh did not print \/never\/ within 200 ms/);
  assert.ok(pid > 0 && !isAlive(pid));
});

test('startProgram() reports an unknown program', async () => {
  const none = startProgram({ command: '/no/such/program', ready: { log: /x/ } });
  await assert.rejects(none, /^Error: Cannot start program: spawn \/no\/such\/program ENOENT$/);
});

test('stop() sends the chosen signal and returns the exit', async () => {
  await using program = await startProgram({
    ...script(`trap 'exit 7' USR1; ${SLEEP}`),
    stopSignal: 'SIGUSR1',
  });
  assert.deepEqual(await program.stop(), { code: 7, signal: null });
  assert.deepEqual(await program.stop(), { code: 7, signal: null });
  assert.deepEqual(program.exit(), { code: 7, signal: null });
});

test('stop() kills a program that ignores its signal', async () => {
  await using program = await startProgram({ ...script(`trap '' TERM; ${SLEEP}`), stopTimeoutMs: 100 });
  assert.deepEqual(await program.stop(), { code: null, signal: 'SIGKILL' });
});

test('stop() ends the processes that the program started', async () => {
  await using program = await startProgram(script(`sleep 1000 & echo child $!; wait`));
  const child = Number((await program.logged(/^child (\d+)$/m))[1]);
  assert.ok(isAlive(child));
  await program.stop();
  await gone(child);
});

test('logged() rejects when the program ends first', async () => {
  await using program = await startProgram(script('exit 0'));
  await assert.rejects(program.logged(/never/), /sh ended \(code 0\) and did not print/);
});

test('startProgram() leaves nothing behind when this process is killed', async () => {
  const source = `
    const { startProgram } = await import(${JSON.stringify(new URL('./program.ts', import.meta.url).href)});
    const program = await startProgram(${JSON.stringify({ command: 'sh', args: ['-c', `trap '' TERM; echo up; ${SLEEP}`] }).slice(0, -1)}, ready: { log: /up/ } });
    process.stdout.write(program.pid + '\\n');
    setInterval(() => {}, 1000);`;
  const holder = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(holder.stdout, 'data');
  const pid = Number(line);
  assert.ok(pid > 0 && isAlive(pid));
  holder.kill('SIGKILL');
  await gone(pid);
});
