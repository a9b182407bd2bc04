// The Helm chart as text: what Helm refuses, and what it makes of values and of the examples.

import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { valuesSchema } from '../../scripts/values-schema.ts';
import { type AgentFlags, readAgentOptions } from '../../src/agent/agent-options.ts';
import { agentPod } from '../../src/outputs/tenant-agent-pod.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { helm } from '../../testbed/helm.ts';
import { run } from '../../testbed/run.ts';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { CHART, configOf, EXAMPLES, one, type Rendered, renderChart } from './render-chart.ts';

const skip = missingGoPrograms('helm');
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const examples = globSync(`${EXAMPLES}/*.yaml`).toSorted();
let dir: TempDir;
before(async () => {
  dir = await tempDir();
});
after(() => dir[Symbol.asyncDispose]());

test('values.schema.json is what scripts/values-schema.ts writes', () => {
  const written = JSON.parse(readFileSync(`${CHART}/values.schema.json`, 'utf8'));
  const command = 'node_modules/node/bin/node scripts/values-schema.ts';
  assert.deepEqual(written, JSON.parse(JSON.stringify(valuesSchema())), `run ${command}`);
});

test('values.yaml has every key of the schema, with its default', () => {
  const values = parse(readFileSync(`${CHART}/values.yaml`, 'utf8'));
  const { properties } = valuesSchema() as { properties: Record<string, Schema> };
  const { config: _schema, global: _global, ...own } = properties;
  const { config: _config, ...given } = values;
  compareKeys(given, own, '');
});

interface Schema {
  readonly properties?: Record<string, Schema>;
}

function compareKeys(values: Record<string, unknown>, schemas: Record<string, Schema>, path: string): void {
  assert.deepEqual(Object.keys(values).toSorted(), Object.keys(schemas).toSorted(), path);
  for (const [key, { properties }] of Object.entries(schemas)) {
    if (properties !== undefined)
      compareKeys(values[key] as Record<string, unknown>, properties, `${path}.${key}`);
  }
}

test('the chart has the version of the program', () => {
  const { version } = JSON.parse(readFileSync(`${ROOT}/package.json`, 'utf8'));
  const chart = parse(readFileSync(`${CHART}/Chart.yaml`, 'utf8'));
  assert.deepEqual([chart.version, chart.appVersion], [version, version]);
});

test('helm lint --strict has nothing to say, with the defaults and with each example', { skip }, async () => {
  for (const values of [[], ...examples.map(file => ['--values', file])]) {
    const { code, stdout, stderr } = await helm(['lint', '--strict', CHART, ...values]);
    assert.equal(code, 0, `${values}\n${stdout}${stderr}`);
    assert.doesNotMatch(stdout.toString(), /\[(ERROR|WARNING)\]/);
  }
});

const refused: readonly (readonly [values: object, message: RegExp])[] = [
  [{ replica: 3 }, /at '': additional properties 'replica' not allowed/],
  [{ replicas: 'two' }, /at '\/replicas': got string, want integer/],
  [{ secrets: ['a', 'a'] }, /at '\/secrets': items at 0 and 1 are equal/],
  [{ config: { listen: [6443] } }, /at '\/config\/listen\/0': got number, want string or object/],
  [{ kind: 'Pod' }, /at '\/kind': value must be one of 'Deployment', 'DaemonSet'/],
  [{ service: { port: 443 } }, /at '\/service': additional properties 'port' not allowed/],
  [{ service: { ports: [{ name: 'a' }] } }, /at '\/service\/ports\/0': missing property 'port'/],
  [{ agent: { id: 'a' } }, /at '\/agent': additional properties 'id' not allowed/],
  [{ config: { lisen: [] } }, /at '\/config': additional properties 'lisen' not allowed/],
  [{ config: { listen: [] } }, /at '\/config\/listen': minItems: got 0, want 1/],
  [{ config: { listen: [{ agent: 1 }] } }, /at '\/config\/listen\/0': additional properties 'agent'/],
  [{ config: { engine: 'fast' } }, /at '\/config\/engine': value must be one of 'auto', 'epoll'/],
  [
    { config: { clusters: [{ name: 'a', api: { host: 'b', backends: [] } }] } },
    /at '\/config\/clusters\/0\/api': additional properties 'host' not allowed/,
  ],
  [
    { config: { sources: [{ kamaji: { namespace: 'a' } }] } },
    /at '\/config\/sources\/0\/kamaji': additional properties 'namespace' not allowed/,
  ],
  [{ config: { listen: [':0'] } }, /config\.listen: ":0" must have a port that is not 0/],
  [{ config: { listen: ['127.0.0.1:1'] } }, /config\.listen: only the Pod itself can reach its addresses/],
  [{ agent: { enabled: true } }, /agent\.clusterId: must be the cluster's id/],
  [
    { agent: { enabled: true, clusterId: 'a', gateway: 'g:443', uplink: 'tunnel' } },
    /agent\.existingSecret: uplink tunnel needs a Secret with the key `key`/,
  ],
  [{ serviceAccount: { create: false } }, /serviceAccount\.name: must name the ServiceAccount/],
  [
    { serviceMonitor: { enabled: true }, config: { admin: { on: 'off' } } },
    /serviceMonitor\.enabled: Prometheus cannot reach the admin side/,
  ],
];

test('wrong values are refused with their path', { skip }, async () => {
  for (const [values, message] of refused) {
    const { code, stderr } = await helm(['template', 'causeway', CHART], values);
    assert.notEqual(code, 0, JSON.stringify(values));
    assert.match(stderr, message);
  }
});

/** As the Pod has it, with files that `check` can read. */
async function check(text: string): Promise<{ readonly code: number | null; readonly output: string }> {
  const secret = `${'s'.repeat(43)}\n`;
  const files = { 'admin/password': 'p', 'secrets/causeway-identity/identity.secret': secret };
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dir.file(name).replace(/\/[^/]*$/, ''), { recursive: true });
    await writeFile(dir.file(name), content, { mode: 0o600 });
  }
  await writeFile(dir.file('causeway.yaml'), text.replaceAll('/etc/causeway-', `${dir.path}/`));
  const { code, stdout, stderr } = await run(`${ROOT}/bin/causeway`, ['check', dir.file('causeway.yaml')]);
  return { code, output: `${stdout}${stderr}` };
}

for (const file of examples) {
  const name = basename(file, '.yaml');
  if (name === 'agent') continue;
  test(`chart/examples/${name}.yaml gives a causeway.yaml that check accepts`, { skip }, async () => {
    const { code, output } = await check(configOf(await renderChart(file)));
    assert.equal(code, 0, output);
    assert.match(output, /^ok: /m);
    assert.doesNotMatch(output, /warning/i);
  });
}

test('the defaults give a causeway.yaml that check accepts', { skip }, async () => {
  const { code, output } = await check(configOf(await renderChart()));
  assert.equal(code, 0, output);
});

test('the defaults start, and only the probes need no login', { skip }, async () => {
  const text = configOf(await renderChart());
  await check(text); // makes the files
  const here = text
    .replaceAll('/etc/causeway-', `${dir.path}/`)
    .replace('/var/lib/causeway', dir.file('state'))
    .replace('"on": :9440', '"on": 0.0.0.0:0')
    .replace('- :6443', '- 127.0.0.1:0');
  await using gateway = await startCauseway({ config: here });
  const statusOf = async (path: string, headers = {}) =>
    (await fetch(`${gateway.admin}${path}`, { headers })).status;
  assert.equal(await statusOf('/readyz'), 200);
  assert.equal(await statusOf('/healthz'), 200);
  assert.equal(await statusOf('/metrics'), 401);
  const Authorization = `Basic ${Buffer.from('admin:p').toString('base64')}`;
  assert.equal(await statusOf('/metrics', { Authorization }), 200);
});

test('on and off stay words, although Helm reads YAML 1.1', { skip }, async () => {
  const yaml = `
config:
  listen: [{ on: ":6443" }]
  admin: { on: off }
  timeouts: { idle: off, keepalive: off, drain: 5m }
  limits: { perSource: off }
  identity: { secretFile: /etc/causeway-secrets/causeway-identity/identity.secret, required: off }
  statusAnnotation: off
  clusters:
    - name: a
      limits: { connections: 1000000, newPerSecond: off }
      routes: { on: { hosts: [a.example.com], backends: ["192.0.2.1:1"] } }
`;
  await writeFile(dir.file('words.yaml'), yaml);
  const text = configOf(await renderChart(dir.file('words.yaml')));
  const config = parse(text);
  assert.deepEqual(config.listen, [{ on: ':6443' }]);
  assert.equal(config.admin.on, 'off');
  assert.deepEqual(config.timeouts, { idle: 'off', keepalive: 'off', drain: '5m', drainDelay: '10s' });
  assert.equal(config.identity.required, false);
  assert.equal(config.statusAnnotation, false);
  assert.deepEqual(config.clusters[0].limits, { connections: 1_000_000, newPerSecond: 'off' });
  assert.deepEqual(Object.keys(config.clusters[0].routes), ['on']);
  const { code, output } = await check(text);
  assert.equal(code, 0, output);
});

function podOf(objects: readonly Rendered[]): Rendered {
  const workload = objects.find(({ kind }) => kind === 'Deployment' || kind === 'DaemonSet');
  return workload?.spec.template;
}

test('the grace period covers preStop, drainDelay and drain', { skip }, async () => {
  const cases: readonly (readonly [object, preStop: number | undefined, grace: number])[] = [
    [{}, undefined, 10 + 600 + 15],
    [{ config: { timeouts: { drainDelay: '0s', drain: '1h' } } }, 10, 10 + 3600 + 15],
    [{ config: { timeouts: { drainDelay: '1500ms', drain: '90s' } } }, undefined, 2 + 90 + 15],
    [{ preStopSeconds: 0, config: { timeouts: { drainDelay: '0s' } } }, undefined, 600 + 15],
    [{ preStopSeconds: 7 }, 7, 7 + 10 + 600 + 15],
  ];
  for (const [values, preStop, grace] of cases) {
    const { spec } = podOf(await renderChart(values));
    assert.equal(spec.containers[0].lifecycle?.preStop.sleep.seconds, preStop, JSON.stringify(values));
    assert.equal(spec.terminationGracePeriodSeconds, grace, JSON.stringify(values));
  }
});

test('probes ask the admin side, wherever it is', { skip }, async () => {
  const readiness = async (values: object) =>
    podOf(await renderChart(values)).spec.containers[0].readinessProbe;
  const http = { path: '/readyz', port: 'admin', scheme: 'HTTP' };
  assert.deepEqual((await readiness({})).httpGet, http);
  const tls = { certFile: '/a', keyFile: '/b' };
  assert.deepEqual((await readiness({ config: { admin: { tls } } })).httpGet, { ...http, scheme: 'HTTPS' });
  const loopback = { config: { admin: { on: '127.0.0.1:9440' } } };
  assert.deepEqual((await readiness(loopback)).tcpSocket, { port: 6443 });
  const onHost = { ...loopback, hostNetwork: true };
  assert.deepEqual((await readiness(onHost)).httpGet, { ...http, host: '127.0.0.1' });
});

test('only keys that need a restart replace the Pods', { skip }, async () => {
  const before = podOf(await renderChart({}));
  const clusters = [{ name: 'a', api: { hosts: ['a.example.com'], backends: ['192.0.2.1:6443'] } }];
  assert.deepEqual(podOf(await renderChart({ config: { clusters, log: { level: 'debug' } } })), before);
  for (const config of [{ workers: 3 }, { admin: { hosts: ['gw.example.com'] } }, { engine: 'net' }]) {
    const { metadata } = podOf(await renderChart({ config }));
    assert.notDeepEqual(metadata.annotations, before.metadata.annotations, JSON.stringify(config));
  }
});

test('a DNS server gets a Service of its own, ports in the Pod and in the network policy', {
  skip,
}, async () => {
  const outputs = [{ dnsServer: { on: ':53', addresses: ['203.0.113.10'] } }];
  const values = { config: { listen: [':6443'], outputs }, networkPolicy: { enabled: true } };
  const rendered = await renderChart(values);
  const service = one(rendered, 'Service', 'causeway-dns');
  assert.deepEqual(
    service.spec.ports.map(({ port, protocol }: { port: number; protocol: string }) => [port, protocol]),
    [
      [53, 'UDP'],
      [53, 'TCP'],
    ],
  );
  const { spec } = podOf(rendered);
  const open = spec.containers[0].ports.filter((port: { name: string }) => port.name.startsWith('dns-'));
  assert.equal(open.length, 2);
  assert.equal(spec.securityContext.sysctls[0].value, '53');
  assert.match(JSON.stringify(one(rendered, 'NetworkPolicy').spec.ingress), /"port":53,"protocol":"UDP"/);
  const local = [{ dnsServer: { on: '127.0.0.1:53', addresses: ['203.0.113.10'] } }];
  const without = await renderChart({ ...values, config: { listen: [':6443'], outputs: local } });
  assert.throws(() => one(without, 'Service', 'causeway-dns'));
});

test('low ports need a sysctl in the Pod, and root on the host network', { skip }, async () => {
  const low = { config: { listen: [':443', ':6443'] } };
  const inPod = podOf(await renderChart(low)).spec;
  assert.deepEqual(inPod.securityContext.sysctls, [
    { name: 'net.ipv4.ip_unprivileged_port_start', value: '443' },
  ]);
  assert.equal(inPod.securityContext.runAsUser, 65_532);
  const onHost = podOf(await renderChart({ ...low, hostNetwork: true })).spec;
  assert.equal(onHost.securityContext.runAsUser, 0);
  assert.equal(onHost.securityContext.sysctls, undefined);
  assert.deepEqual(onHost.containers[0].securityContext.capabilities, {
    drop: ['ALL'],
    add: ['NET_BIND_SERVICE'],
  });
  const high = podOf(await renderChart({ hostNetwork: true })).spec;
  assert.equal(high.securityContext.runAsUser, 65_532);
});

test('the Service has a port for each listener and the tunnel, or those that are given', {
  skip,
}, async () => {
  const portsOf = async (values: object) =>
    one(await renderChart(values), 'Service', 'causeway').spec.ports.map(
      ({ port, targetPort }: { port: number; targetPort: number }) => [port, targetPort],
    );
  const listen = [':6443', { on: '[::]:443' }, '127.0.0.1:9999', ':6443'];
  const tunnel = { on: ':8443', hosts: ['t.example.com'], certificates: [{ certFile: 'a', keyFile: 'b' }] };
  const config = { listen, tunnel };
  assert.deepEqual(await portsOf({ config }), [
    [6443, 6443],
    [443, 443],
    [8443, 8443],
  ]);
  assert.deepEqual(await portsOf({ config, service: { ports: [{ port: 443, targetPort: 6443 }] } }), [
    [443, 6443],
  ]);
});

test('Secrets are mounted by name, and the only one made has a random password', { skip }, async () => {
  const objects = await renderChart({ secrets: ['identity', 'kube.config'] });
  const { spec } = podOf(objects);
  const names = spec.volumes.map(({ secret }: { secret?: { secretName: string } }) => secret?.secretName);
  assert.deepEqual(
    names.filter((name: string | undefined) => name !== undefined),
    ['causeway-admin', 'identity', 'kube.config'],
  );
  const folders = spec.containers[0].volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
  assert.ok(folders.includes('/etc/causeway-secrets/kube.config'));
  const made = objects.filter(({ kind }) => kind === 'Secret');
  assert.deepEqual(
    made.map(({ metadata }) => metadata.name),
    ['causeway-admin'],
  );
  assert.match(Buffer.from(made[0].data.password, 'base64').toString(), /^[A-Za-z0-9]{32}$/);
  const auth = [
    { username: 'other', passwordFile: '/etc/causeway-secrets/identity/p' },
    { username: 'viewer', passwordFile: '/etc/causeway-admin/password', role: 'viewer' },
  ];
  const renamed = one(await renderChart({ config: { admin: { auth } } }), 'Secret');
  assert.equal(Buffer.from(renamed.data.username, 'base64').toString(), 'viewer');
  for (const values of [
    { admin: { existingSecret: 'mine' } },
    { config: { admin: { on: 'off', auth: [] } } },
  ]) {
    const others = await renderChart(values);
    assert.equal(
      others.some(({ kind }) => kind === 'Secret'),
      false,
    );
  }
});

test('one replica has no PodDisruptionBudget, which would keep its node from being drained', {
  skip,
}, async () => {
  const has = async (values: object) =>
    (await renderChart(values)).some(({ kind }) => kind === 'PodDisruptionBudget');
  assert.deepEqual([await has({}), await has({ replicas: 1 })], [true, false]);
});

test('monitoring: the login by reference, the rules and the dashboard as they are', { skip }, async () => {
  const objects = await renderChart(`${EXAMPLES}/monitoring.yaml`);
  assert.deepEqual(one(objects, 'ServiceMonitor').spec.endpoints[0].basicAuth, {
    username: { name: 'causeway-admin', key: 'username' },
    password: { name: 'causeway-admin', key: 'password' },
  });
  const file = (name: string) => readFileSync(`${CHART}/files/${name}`, 'utf8');
  assert.deepEqual(one(objects, 'PrometheusRule').spec, parse(file('alerts.yaml')));
  const { data } = one(objects, 'ConfigMap', 'causeway-dashboard');
  assert.deepEqual(JSON.parse(data['causeway.json']), JSON.parse(file('dashboard.json')));
});

test('the agent is the same as that of the output tenantAgent', { skip }, async () => {
  const objects = await renderChart(`${EXAMPLES}/agent.yaml`);
  assert.equal(
    objects.some(({ metadata }) => metadata.name === 'causeway'),
    false,
    'no gateway',
  );
  const { spec } = podOf(objects);
  const [container] = spec.containers;
  const expected = agentPod(
    {
      id: '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11',
      gateway: 'gw.clusters.example.com:443',
      gatewayAddresses: ['203.0.113.10'],
      image: 'causeway:0.1.0',
      resources: {},
      hostAliases: [],
      key: 'k',
    } as unknown as Parameters<typeof agentPod>[0],
    {
      kind: 'Deployment',
      uplink: 'proxy',
      tolerations: [],
      priorityClassName: 'system-cluster-critical',
      imagePullSecrets: [],
    } as unknown as Parameters<typeof agentPod>[1],
    true,
  ).spec;
  const { imagePullPolicy: _policy, args, ...rest } = container;
  const [{ args: expectedArgs, ...expectedRest }] = expected.containers;
  assert.deepEqual(
    args.filter((arg: string) => !arg.startsWith('--lease-namespace=')),
    expectedArgs,
  );
  assert.deepEqual(rest, expectedRest);
  const { containers: _containers, enableServiceLinks: _links, ...pod } = spec;
  const { containers: _theirs, ...expectedPod } = expected;
  assert.deepEqual(pod, expectedPod);
});

test('every uplink of the agent has the flags that it needs', { skip }, async () => {
  for (const uplink of ['proxy', 'connect', 'tunnel', 'terminate']) {
    const agent = { enabled: true, clusterId: 'a', gateway: 'gw.example.com:443', uplink };
    const serverName = uplink === 'proxy' ? '' : 'api.example.com';
    const given = { ...agent, serverName, existingSecret: 's', endpoints: uplink !== 'connect' };
    const { spec } = podOf(await renderChart({ gateway: { enabled: false }, agent: given }));
    const flags: Record<string, string | true> = {};
    for (const arg of spec.containers[0].args.slice(1) as string[]) {
      const [, name, value] = /^--([a-z-]+)(?:=(.*))?$/.exec(arg) ?? [];
      flags[name] = value ?? true;
    }
    const read = readAgentOptions({ ...flags, advertise: ['192.0.2.1'] } as AgentFlags);
    assert.ok(read.ok, JSON.stringify(read));
  }
});
