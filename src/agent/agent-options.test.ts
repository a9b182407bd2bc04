import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AgentFlags, type AgentOptions, readAgentOptions } from './agent-options.ts';

const needed = {
  'cluster-id': 'a-1',
  gateway: 'gw.example.com:6443',
  uplink: 'proxy',
  on: '172.20.0.1:6443',
};
const tunnel = { ...needed, uplink: 'tunnel', 'key-file': 'key' };
const terminate = { ...needed, uplink: 'terminate', 'cert-file': 'crt', 'cert-key-file': 'key' };

function read(flags: AgentFlags): AgentOptions {
  const answer = readAgentOptions(flags);
  assert.ok(answer.ok, JSON.stringify(answer));
  return answer.options;
}

function mistakes(flags: AgentFlags): readonly string[] {
  const answer = readAgentOptions(flags);
  return answer.ok ? [] : answer.mistakes;
}

test('readAgentOptions() has defaults for all but four flags', () => {
  assert.deepEqual(read(needed), {
    clusterId: 'a-1',
    gateway: { host: 'gw.example.com', port: 6443 },
    gatewayAddresses: [],
    uplink: 'proxy',
    on: { host: '172.20.0.1', port: 6443 },
    serverName: 'gw.example.com',
    localDevice: 'lo',
    endpoints: false,
    advertise: ['172.20.0.1'],
    leaseNamespace: 'kube-system',
    engine: 'auto',
  });
});

test('readAgentOptions() reads every flag', () => {
  const flags = {
    ...terminate,
    gateway: 'GW.Example.com.:443',
    on: '[fd00::1]:0',
    'gateway-address': ['192.0.2.1', '2001:db8::1'],
    'server-name': 'API.example.com',
    'ca-file': 'ca',
    'local-address': 'fd00::1',
    'local-device': 'dummy0',
    endpoints: true,
    kubeconfig: 'kc',
    advertise: '192.0.2.9',
    'lease-namespace': 'causeway-agent',
    'metrics-on': ':9441',
    engine: 'net',
    workers: '3',
  };
  assert.deepEqual(read(flags), {
    clusterId: 'a-1',
    gateway: { host: 'gw.example.com', port: 443 },
    gatewayAddresses: ['192.0.2.1', '2001:db8::1'],
    uplink: 'terminate',
    on: { host: 'fd00::1', port: 0 },
    serverName: 'api.example.com',
    caFile: 'ca',
    certFile: 'crt',
    certKeyFile: 'key',
    localAddress: 'fd00::1',
    localDevice: 'dummy0',
    endpoints: true,
    kubeconfig: 'kc',
    advertise: ['192.0.2.9'],
    leaseNamespace: 'causeway-agent',
    metricsOn: { host: '', port: 9441 },
    engine: 'net',
    workers: 3,
  });
  assert.equal(read(tunnel).keyFile, 'key');
});

test('readAgentOptions() reports unused flags, and does not read their files', () => {
  const all = {
    'key-file': 'k',
    'server-name': 'api.example.com',
    'ca-file': 'ca',
    'cert-file': 'crt',
    'cert-key-file': 'key',
  };
  const unused = (flags: AgentFlags) => {
    const answer = readAgentOptions(flags);
    assert.ok(answer.ok, JSON.stringify(answer));
    return answer.unused;
  };
  for (const uplink of ['proxy', 'connect']) {
    const { keyFile, caFile, certFile, certKeyFile } = read({ ...needed, ...all, uplink });
    assert.deepEqual([keyFile, caFile, certFile, certKeyFile], ['k', undefined, undefined, undefined]);
    assert.deepEqual(unused({ ...needed, ...all, uplink }), [
      `--server-name is not used by --uplink ${uplink}, only by tunnel, terminate`,
      `--ca-file is not used by --uplink ${uplink}, only by tunnel, terminate`,
      `--cert-file is not used by --uplink ${uplink}, only by terminate`,
      `--cert-key-file is not used by --uplink ${uplink}, only by terminate`,
    ]);
  }
  assert.equal(unused({ ...tunnel, ...all }).length, 2);
  assert.deepEqual(unused({ ...terminate, ...all }), [
    '--key-file is not used by --uplink terminate, only by proxy, connect, tunnel',
  ]);
  const alone = {
    'local-device': 'dummy0',
    kubeconfig: 'kc',
    advertise: ['192.0.2.9'],
    'lease-namespace': 'agents',
  };
  assert.deepEqual(unused({ ...needed, ...alone }), [
    '--local-device is not used without --local-address',
    '--kubeconfig is not used without --endpoints',
    '--advertise is not used without --endpoints',
    '--lease-namespace is not used without --endpoints',
  ]);
  assert.deepEqual(unused({ ...needed, ...alone, 'local-address': '172.20.0.1', endpoints: true }), []);
});

test('readAgentOptions() advertises the address of --on unless it is unspecified', () => {
  for (const on of [':6443', '0.0.0.0:6443', '[::]:6443']) {
    assert.deepEqual(read({ ...needed, on }).advertise, []);
    assert.deepEqual(mistakes({ ...needed, on, endpoints: true }), [
      '--advertise is required: --on has no address that can be an endpoint',
    ]);
  }
});

test('readAgentOptions() reports every mistake by its flag', () => {
  assert.deepEqual(mistakes({}), [
    "--cluster-id is required: the cluster's id at the gateway",
    '--uplink is required: one of proxy, connect, tunnel, terminate',
    "--gateway is required: the gateway's HOST:PORT",
    '--on is required: an address to listen on, IP:PORT or :PORT',
  ]);
  const cases: readonly (readonly [flags: AgentFlags, mistake: string])[] = [
    [
      { 'cluster-id': 'a b' },
      '--cluster-id must be an id of 1 to 128 letters, digits, ".", "_" and "-": a b',
    ],
    [
      { uplink: 'carrier-pigeon' },
      '--uplink must be one of proxy, connect, tunnel, terminate: carrier-pigeon',
    ],
    [{ gateway: 'gw.example.com' }, "--gateway must be the gateway's HOST:PORT: gw.example.com"],
    [{ gateway: 'gw.example.com:0' }, "--gateway must be the gateway's HOST:PORT: gw.example.com:0"],
    [{ gateway: 'gw.example.com:65536' }, "--gateway must be the gateway's HOST:PORT: gw.example.com:65536"],
    [{ gateway: '-dash.example:1' }, "--gateway must be the gateway's HOST:PORT: -dash.example:1"],
    [{ gateway: '2001:db8::1:443' }, "--gateway must be the gateway's HOST:PORT: 2001:db8::1:443"],
    [{ on: 'node-1:6443' }, '--on must be an address to listen on, IP:PORT or :PORT: node-1:6443'],
    [{ on: '[10.0.0.1]:1' }, '--on must be an address to listen on, IP:PORT or :PORT: [10.0.0.1]:1'],
    [{ 'metrics-on': '9441' }, '--metrics-on must be IP:PORT or :PORT: 9441'],
    [{ 'gateway-address': ['gw'] }, '--gateway-address must be an IP address: gw'],
    [{ 'local-address': '10.0.0.1/32' }, '--local-address must be an IP address: 10.0.0.1/32'],
    [{ advertise: 'node-1' }, '--advertise must be an IP address: node-1'],
    [{ 'lease-namespace': 'Kube_System' }, '--lease-namespace must be the name of a namespace: Kube_System'],
    [{ engine: 'haproxy' }, '--engine must be one of auto, epoll, net: haproxy'],
    [{ workers: '0' }, '--workers must be a whole number from 1 to 1024: 0'],
    [{ workers: 'auto' }, '--workers must be a whole number from 1 to 1024: auto'],
    [{ 'key-file': '' }, '--key-file must not be empty'],
    [{ 'cluster-id': '' }, '--cluster-id must not be empty'],
  ];
  for (const [flags, mistake] of cases) assert.deepEqual(mistakes({ ...needed, ...flags }), [mistake]);
});

test('readAgentOptions() requires the flags that each uplink needs', () => {
  const { 'key-file': _, ...unsigned } = tunnel;
  assert.deepEqual(mistakes(unsigned), [
    '--key-file is required: a tunnel accepts only signed ids. Generate a key with causeway identity key',
  ]);
  const noName = "--server-name is required: the name in the gateway's certificate, and the SNI to send";
  assert.deepEqual(mistakes({ ...tunnel, gateway: '192.0.2.1:443' }), [noName]);
  assert.deepEqual(mistakes({ ...terminate, gateway: '[2001:db8::1]:443' }), [noName]);
  assert.deepEqual(mistakes({ ...tunnel, 'server-name': '192.0.2.1' }), [
    '--server-name must be a host name, not an address: 192.0.2.1',
  ]);
  assert.equal(
    read({ ...tunnel, gateway: '192.0.2.1:443', 'server-name': 't.example.com' }).serverName,
    't.example.com',
  );
  const { 'cert-key-file': __, ...keyless } = terminate;
  assert.deepEqual(mistakes(keyless), [
    '--cert-file and --cert-key-file are required: the certificate that clients of terminate see, and its key',
  ]);
  assert.deepEqual(mistakes({ ...needed, gateway: '192.0.2.1:443' }), []);
});
