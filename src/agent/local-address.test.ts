import assert from 'node:assert/strict';
import { test } from 'node:test';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import type { Program } from '../../testbed/program.ts';
import { addLocalAddress } from './local-address.ts';
import type { LocalNetwork } from './local-network.ts';

/** A kernel in memory: devices with their addresses, and the part of `ip` that is used. */
function given(options: { privileged?: boolean; dummies?: boolean; program?: boolean } = {}) {
  const { privileged = true, dummies = true, program = true } = options;
  const devices = new Map([['lo', new Set(['127.0.0.1'])]]);
  const calls: string[] = [];
  const lines: string[] = [];
  const yes = { ok: true, fault: '' };
  const no = (fault: string) => ({ ok: false, fault });
  const network: LocalNetwork = {
    addresses: () => new Set([...devices.values()].flatMap(device => [...device])),
    async ip(...args) {
      const call = args.join(' ');
      if (!program) return no('ENOENT');
      const device = args[args.indexOf('dev') + 1];
      const address = args[2].split('/')[0];
      if (call.startsWith('link show')) return devices.has(device) ? yes : no('does not exist');
      calls.push(call);
      if (!privileged) return no('RTNETLINK answers: Operation not permitted');
      if (call.startsWith('link add')) {
        if (!dummies) return no('Error: Unknown device type.');
        devices.set(device, new Set());
      } else if (call.startsWith('link delete')) devices.delete(device);
      else if (call.startsWith('address add')) {
        if (devices.get(device)?.has(address)) return no('RTNETLINK answers: File exists');
        devices.get(device)?.add(address);
      } else if (call.startsWith('address delete') && !devices.get(device)?.delete(address)) {
        return no('RTNETLINK answers: Cannot assign requested address');
      }
      return yes;
    },
  };
  const log = (level: string, sentence: string) => lines.push(`${level}: ${sentence}`);
  return { devices, calls, lines, network, log };
}

const later = async () => {
  for (let turn = 0; turn < 5; turn++) await new Promise(resolve => setImmediate(resolve));
};

test('addLocalAddress() adds an IPv4 address to lo with host scope, and removes it', async () => {
  const { devices, calls, network, log } = given();
  {
    await using _ = await addLocalAddress({ address: '172.20.0.1', network, log });
    assert.ok(devices.get('lo')?.has('172.20.0.1'));
  }
  assert.deepEqual(calls, [
    'address add 172.20.0.1/32 dev lo scope host',
    'link set dev lo up',
    'address delete 172.20.0.1/32 dev lo',
  ]);
});

test('addLocalAddress() adds an IPv6 address in any spelling', async () => {
  const { calls, network, log } = given();
  await using _ = await addLocalAddress({ address: 'FD00:0::1', network, log });
  assert.equal(calls[0], 'address add fd00::1/128 dev lo');
});

test('addLocalAddress() uses an existing address without privileges or `ip`, and does not remove it', async () => {
  const { devices, calls, network, log } = given({ privileged: false, program: false });
  devices.get('lo')?.add('172.20.0.1');
  {
    await using _ = await addLocalAddress({ address: '172.20.0.1', network, log });
    await using _loopback = await addLocalAddress({ address: '127.0.0.7', network, log });
  }
  assert.deepEqual(calls, []);
  assert.ok(devices.get('lo')?.has('172.20.0.1'));
});

test('addLocalAddress() creates a missing device, and removes it', async () => {
  const { devices, calls, network, log } = given();
  {
    await using _ = await addLocalAddress({ address: 'fd00::1', device: 'causeway0', network, log });
    assert.ok(devices.get('causeway0')?.has('fd00::1'));
  }
  assert.deepEqual(calls, [
    'link add dev causeway0 type dummy',
    'address add fd00::1/128 dev causeway0 nodad',
    'link set dev causeway0 up',
    'link delete dev causeway0',
  ]);
});

test('addLocalAddress() keeps an existing device, and removes only its own address', async () => {
  const { devices, network, log } = given();
  devices.set('dummy7', new Set(['192.0.2.7']));
  {
    await using _ = await addLocalAddress({ address: '172.20.0.1', device: 'dummy7', network, log });
    assert.ok(devices.get('dummy7')?.has('172.20.0.1'));
  }
  assert.deepEqual([...(devices.get('dummy7') ?? [])], ['192.0.2.7']);
});

for (const [what, options, device, message] of [
  [
    'privileges',
    { privileged: false },
    'lo',
    "Cannot add 172.20.0.1 to 'lo': this needs the capability NET_ADMIN. Run as root with it (in a pod: securityContext.capabilities.add: [NET_ADMIN]), or add the address beforehand: ip address add 172.20.0.1/32 dev lo",
  ],
  [
    'the program',
    { program: false },
    'lo',
    "Cannot add 172.20.0.1 to 'lo': the program 'ip' is missing. Install the package iproute2, or add the address beforehand: ip address add 172.20.0.1/32 dev lo",
  ],
  [
    'the device type',
    { dummies: false },
    'causeway0',
    "Cannot create the device 'causeway0' (Error: Unknown device type.): this kernel may not support dummy devices. Use --local-device lo, or create the device beforehand",
  ],
] as const) {
  test(`addLocalAddress() explains what to do without ${what}`, async () => {
    const { network, log } = given(options);
    await assert.rejects(addLocalAddress({ address: '172.20.0.1', device, network, log }), {
      code: 'ERR_LOCAL_ADDRESS',
      message,
    });
  });
}

for (const address of ['node-1', '0.0.0.0', '::', '224.0.0.1', 'ff02::1', '172.20.0.1/32']) {
  test(`addLocalAddress() refuses ${address}`, async () => {
    const { network, log, calls } = given();
    await assert.rejects(
      addLocalAddress({ address, network, log }),
      /^LocalAddressError: --local-address must be/,
    );
    assert.deepEqual(calls, []);
  });
}

test('addLocalAddress() adds the address again when the agent that added it ends', async t => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { devices, network, log, lines } = given();
  for (const device of ['lo', 'causeway0']) {
    const first = await addLocalAddress({ address: '172.20.0.1', device, network, log });
    const second = await addLocalAddress({ address: '172.20.0.1', device, network, log });
    t.mock.timers.tick(60_000);
    await later();
    await first[Symbol.asyncDispose]();
    assert.equal(devices.get(device)?.has('172.20.0.1') ?? false, false);
    t.mock.timers.tick(2000);
    await later();
    assert.ok(devices.get(device)?.has('172.20.0.1'), lines.join('\n'));
    await second[Symbol.asyncDispose]();
    assert.equal(devices.get(device)?.has('172.20.0.1') ?? false, false);
  }
});

test('addLocalAddress() logs once that it cannot add the address again, and keeps retrying', async t => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { devices, network, log, lines, calls } = given({ privileged: false });
  devices.get('lo')?.add('172.20.0.1');
  await using _ = await addLocalAddress({ address: '172.20.0.1', network, log });
  devices.get('lo')?.delete('172.20.0.1');
  for (let check = 0; check < 5; check++) {
    t.mock.timers.tick(2000);
    await later();
  }
  assert.equal(
    lines.filter(line => /^error: 172\.20\.0\.1 is gone\. Cannot add .* NET_ADMIN/.test(line)).length,
    1,
  );
  assert.equal(calls.filter(call => call.startsWith('address add')).length, 5);
});

test('addLocalAddress() survives a temporary failure to list addresses', async t => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { devices, network, log, lines } = given();
  let broken = false;
  const addresses = () => {
    if (broken) throw new Error('uv_interface_addresses returned EMFILE');
    return network.addresses();
  };
  await using _ = await addLocalAddress({ address: '172.20.0.1', network: { ...network, addresses }, log });
  devices.get('lo')?.delete('172.20.0.1');
  broken = true;
  t.mock.timers.tick(2000);
  await later();
  assert.equal(lines.at(-1), 'error: 172.20.0.1 cannot be checked. uv_interface_addresses returned EMFILE');
  broken = false;
  t.mock.timers.tick(2000);
  await later();
  assert.ok(devices.get('lo')?.has('172.20.0.1'));
});

const MODULE = new URL('./local-address.ts', import.meta.url).href;
/** Adds its address, listens on it, prints its log, and ends on SIGTERM. */
const AGENT = `
  const { addLocalAddress } = await import(process.argv[1]);
  const [address, device] = process.argv.slice(2);
  const log = (level, sentence) => console.log(level + ': ' + sentence);
  try {
    const kept = await addLocalAddress({ address, device, log });
    const server = (await import('node:net')).createServer(socket => socket.end('hello')).listen(6443, address);
    server.on('error', error => console.log('not listening: ' + error.code));
    server.on('listening', () => console.log('listening'));
    process.on('SIGTERM', async () => { await kept[Symbol.asyncDispose](); process.exit(0); });
  } catch (error) { console.log(error.message); }
`;

async function startAgent(node: Netns, address: string, port?: number): Promise<Program> {
  return node.start({
    command: process.execPath,
    args: ['--input-type=module', '-e', AGENT.replace('6443', String(port ?? 6443)), MODULE, address],
    ready: { log: /^listening$/m },
  });
}

async function addressesOn(node: Netns): Promise<string> {
  return (await node.run('ip', ['-o', 'address', 'show', 'dev', 'lo'])).stdout.toString();
}

for (const [address, shown] of [
  ['172.20.0.1', '172.20.0.1/32 scope host lo'],
  ['fd00::172:20:0:1', 'fd00::172:20:0:1/128 scope global'],
] as const) {
  test(`addLocalAddress() adds ${address} to a real lo; a second agent keeps listening when the first ends`, {
    skip: missingNetns(),
    timeout: 60_000,
  }, async () => {
    await using node = await netns();
    const connects = async (port: number) => {
      const program = `require('net').connect(${port}, '${address}').on('error', e => console.log(e.code)).on('data', d => console.log(String(d)))`;
      const { stdout } = await node.run(process.execPath, ['-e', program], { timeoutMs: 20_000 });
      return stdout.toString().trim();
    };
    const first = await startAgent(node, address);
    assert.ok((await addressesOn(node)).includes(shown));
    await using second = await startAgent(node, address, 6444);
    assert.match(second.log(), /already exists/);
    await first.stop();
    await until(async () => (await addressesOn(node)).includes(shown));
    assert.equal(await connects(6444), 'hello');
    assert.match(second.log(), new RegExp(`info: Added ${address} to 'lo'`));
    await second.stop();
    assert.ok(!(await addressesOn(node)).includes(address));
  });
}

test('addLocalAddress() explains the refusal of a real kernel', {
  skip: missingNetns(),
  timeout: 60_000,
}, async () => {
  await using node = await netns();
  const args = ['--input-type=module', '-e', AGENT, MODULE, '172.20.0.1'];
  const { stdout } = await node.run('setpriv', [
    '--bounding-set=-net_admin',
    '--inh-caps=-net_admin',
    process.execPath,
    ...args,
  ]);
  assert.match(stdout.toString(), /needs the capability NET_ADMIN/);
  const device = await node.run(process.execPath, [...args, 'causeway-too-long-a-name']);
  assert.match(device.stdout.toString(), /Cannot create the device 'causeway-too-long-a-name'/);
});

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise(resolve => setTimeout(resolve, 100));
}
