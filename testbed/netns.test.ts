import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort, processNumber, whileUnused } from './free-port.ts';
import { missingNetns, type Netns, netns } from './netns.ts';
import { run } from './run.ts';

const skip = missingNetns();
const MODULE = JSON.stringify(new URL('./netns.ts', import.meta.url).href);

/** Answers one connection with a word, on any address of the namespace. */
function startGreeter(node: Netns, port: number) {
  const program = `
    const greet = socket => socket.on('error', () => {}).end('hello from ${node.name}');
    require('net').createServer(greet).listen(${port}, '::');`;
  return node.start({ command: process.execPath, args: ['-e', program], ready: { port } });
}

/** The answer from there, dialled from a namespace or from this machine; empty without one. */
async function ask(from: Netns | undefined, host: string, port: number): Promise<string> {
  const args = ['-c', 'exec 3<>"/dev/tcp/$0/$1" && cat <&3', host, String(port)];
  const { stdout } = await run('bash', args, from === undefined ? {} : { netns: from });
  return stdout.toString();
}

async function namespaces(): Promise<string[]> {
  return readdir('/run/netns').catch(() => []);
}

/** The machine's ends of this process's hosts only: other tests run beside this one. */
async function ownDevices(): Promise<string[]> {
  return (await readdir('/sys/class/net')).filter(name => name.startsWith(`cwv${process.pid.toString(36)}-`));
}

test('netns() makes a host that reaches this machine and other hosts, and is reached by them', {
  skip,
}, async () => {
  await using a = await netns({ name: 'a' });
  const number = await processNumber();
  await using b = await netns({ name: 'b', address: `10.213.${number & 255}.${70 + (number >> 8)}` });
  const port = await freePort();
  await using _a = await startGreeter(a, port);
  await using _b = await startGreeter(b, port);
  for (const [host, node] of [
    [a.address, a],
    [a.address6, a],
    [b.address, b],
  ] as const) {
    if (host === undefined) continue;
    for (const from of [undefined, a, b])
      assert.equal(await ask(from, host, port), `hello from ${node.name}`, `${from?.name} to ${host}`);
  }
  const machine = createServer(socket => socket.end('hello from the machine')).listen(0, a.machine);
  await once(machine, 'listening');
  const { port: machinePort } = machine.address() as { port: number };
  assert.equal(await ask(a, a.machine, machinePort), 'hello from the machine');
  machine.close();
});

test('netns() has its own loopback with the requested addresses', { skip }, async () => {
  await using a = await netns({ lo: ['172.20.0.1', 'fd00::1'], resolver: '198.51.100.53' });
  await using b = await netns({ lo: ['172.20.0.1'] });
  const port = await freePort();
  await using _ = await startGreeter(a, port);
  for (const host of ['127.0.0.1', '172.20.0.1', 'fd00::1'])
    assert.equal(await ask(a, host, port), `hello from ${a.name}`, host);
  assert.equal(await ask(b, '172.20.0.1', port), '');
  assert.equal(await ask(undefined, '127.0.0.1', port), '');
  assert.equal((await a.run('cat', ['/etc/resolv.conf'])).stdout.toString(), 'nameserver 198.51.100.53\n');
  assert.notEqual(await readFile('/etc/resolv.conf', 'utf8'), 'nameserver 198.51.100.53\n');
});

test('netns() resolves the given names to this machine, in its namespace only', { skip }, async () => {
  // Its own loopback refuses at once; this machine's resolver is unreachable and would time out.
  const resolver = '127.0.0.1';
  await using a = await netns({ names: ['api.a.test', 'api.b.test'], resolver });
  await using b = await netns({ resolver });
  for (const [host, name, found] of [
    [a, 'api.a.test', a.machine],
    [a, 'api.b.test', a.machine],
    [a, 'localhost', '::1'],
    [b, 'api.a.test', ''],
  ] as const)
    assert.equal((await host.run('getent', ['hosts', name])).stdout.toString().split(' ')[0], found, name);
});

test('netns() hosts still find this machine at the same place when more are added', { skip }, async () => {
  const found = async (node: Netns) => {
    assert.match(await ask(node, node.machine, 9), /^$/); // nothing listens there, but the route is resolved
    const { stdout } = await node.run('ip', ['neighbour', 'show', node.machine]);
    return /lladdr (\S+)/.exec(stdout.toString())?.[1];
  };
  await using first = await netns();
  const machine = await found(first);
  assert.ok(machine);
  await using stack = new AsyncDisposableStack();
  for (let i = 0; i < 8; i++) assert.equal(await found(stack.use(await netns())), machine);
});

test('netns() leaves neither processes nor devices behind', { skip }, async () => {
  let name: string;
  let pid: number;
  {
    await using node = await netns({ resolver: '198.51.100.53' });
    name = node.name;
    ({ pid } = await node.start({
      command: 'sh',
      args: ['-c', 'echo on; sleep 1000'],
      ready: { log: /on/ },
    }));
    assert.ok((await namespaces()).includes(name));
    assert.equal((await ownDevices()).length, 1);
  }
  assert.ok(!(await namespaces()).includes(name));
  assert.ok(!existsSync(`/etc/netns/${name}`));
  await until(() => !isAlive(pid));
  assert.deepEqual(await ownDevices(), []);
});

test('netns() cleans up when it fails', { skip }, async () => {
  await assert.rejects(netns({ name: 'fails', address: 'nonsense' }), /ip .*nonsense.* ended with code/);
  assert.deepEqual(
    (await namespaces()).filter(name => name.endsWith('-fails')),
    [],
  );
  assert.deepEqual(await ownDevices(), []);
});

test('netns() is removed with everything in it when its process is killed', { skip }, async () => {
  const script = `
    const { netns } = await import(${MODULE});
    const node = await netns();
    const program = await node.start({ command: 'sleep', args: ['1000'], ready: { probe: async () => true } });
    console.log(JSON.stringify({ name: node.name, pid: program.pid }));
    await new Promise(() => setTimeout(() => {}, 1e6));`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const { name, pid } = JSON.parse(line.toString()) as { name: string; pid: number };
  assert.ok((await namespaces()).includes(name));
  child.kill('SIGKILL');
  await until(async () => !(await namespaces()).includes(name) && !isAlive(pid));
  const [, number, owner] = name.split('-');
  await until(async () => !(await readdir('/sys/class/net')).includes(`cwb${number}p${owner}`));
});

test('netns() removes the leftovers of dead runs only', { skip }, async () => {
  const number = await unusedNumber();
  const dead = `causeway-${number}-${process.pid}-2`;
  const bridge = `cwb${number}p${process.pid}`;
  const living = `causeway-${await processNumber()}-${process.pid}-253`;
  await run('ip', ['netns', 'add', dead]);
  await run('ip', ['link', 'add', bridge, 'type', 'bridge']);
  await run('ip', ['netns', 'add', living]);
  try {
    // In another process, because each process looks for them once.
    const script = `const { netns } = await import(${MODULE}); await using _ = await netns();`;
    const { code, stderr } = await run(process.execPath, ['--input-type=module', '-e', script]);
    assert.equal(code, 0, stderr);
    const left = await namespaces();
    assert.deepEqual([left.includes(dead), left.includes(living)], [false, true]);
    assert.ok(!(await readdir('/sys/class/net')).includes(bridge));
  } finally {
    await run('ip', ['netns', 'delete', dead]);
    await run('ip', ['netns', 'delete', living]);
    await run('ip', ['link', 'delete', bridge]);
  }
});

/** A number that no process has, as far as can be known. */
async function unusedNumber(): Promise<number> {
  for (let number = 349; number >= 0; number--) if (await whileUnused(number, async () => {})) return number;
  throw new Error('Every number is in use');
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function until(ask: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!(await ask())) {
    assert.ok(performance.now() < deadline, 'did not happen within 60 s');
    await delay(20);
  }
}
