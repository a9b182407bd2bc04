import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { kubernetesService, type MemoryStore, memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { Finding } from '../cluster/finding.ts';
import type { EndpointSlice, Endpoints, KubeObject, Lease } from '../kube/kube-object.ts';
import { endpointSlices, leases } from '../kube/resources.ts';
import { AdvertiseError } from './agent-endpoint.ts';
import { type EndpointsOptions, keepEndpoints } from './endpoints.ts';

const SLICE = 'EndpointSlice/default/kubernetes';
const ENDPOINTS = 'Endpoints/default/kubernetes';

/** A cluster with its own store; the test starts its agents and moves its clock. */
function given(...objects: readonly KubeObject[]) {
  const store = memoryStore(...(objects.length === 0 ? [kubernetesService('10.96.0.1')] : objects));
  const clock = testClock();
  const lines: string[] = [];
  const findings: (readonly Finding[])[] = [];
  const agent = (address: string | readonly string[], options: Partial<EndpointsOptions> = {}) => {
    const advertise = [address].flat();
    return keepEndpoints({
      api: store.client(),
      cluster: 'a',
      identity: `node/${advertise[0]}`,
      advertise,
      port: 6443,
      leaseNamespace: 'kube-system',
      log: (level, sentence) => lines.push(`${level}: ${sentence}`),
      onFindings: found => findings.push(found),
      clock,
      random: () => 0,
      ...options,
    });
  };
  return { store, clock, lines, findings, agent };
}

function addresses(store: MemoryStore, key = SLICE): readonly string[] | undefined {
  return store.peek<EndpointSlice>(key)?.endpoints?.flatMap(endpoint => endpoint.addresses);
}

function oldAddresses(store: MemoryStore): readonly string[] | undefined {
  return store
    .peek<Endpoints>(ENDPOINTS)
    ?.subsets?.flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip));
}

/** As an API server does every few seconds, unless its endpoint reconciler is `none`. */
async function writeAs(store: MemoryStore, manager: string, ...ips: readonly string[]): Promise<void> {
  const existing = store.peek<EndpointSlice>(SLICE);
  assert.ok(existing);
  const endpoints = ips.map(ip => ({ addresses: [ip], conditions: { ready: true } }));
  const answer = await store.client(manager).replace(endpointSlices, { ...existing, endpoints });
  assert.ok(answer.ok);
}

test('keepEndpoints() writes slice, Endpoints and lease in the expected format', async () => {
  const { store, clock, agent } = given();
  await using _ = agent('192.0.2.1');
  await clock.advance(0);
  const slice = store.peek<EndpointSlice>(SLICE);
  assert.deepEqual(slice?.metadata.labels, {
    'app.kubernetes.io/managed-by': 'causeway',
    'causeway.dev/cluster': 'a',
    'kubernetes.io/service-name': 'kubernetes',
    'endpointslice.kubernetes.io/managed-by': 'causeway',
  });
  assert.equal(slice.addressType, 'IPv4');
  assert.deepEqual(slice.ports, [{ name: 'https', port: 6443, protocol: 'TCP' }]);
  assert.deepEqual(slice.endpoints, [{ addresses: ['192.0.2.1'], conditions: { ready: true } }]);
  const old = store.peek<Endpoints>(ENDPOINTS);
  assert.equal(old?.metadata.labels?.['endpointslice.kubernetes.io/skip-mirror'], 'true');
  assert.deepEqual(old?.subsets, [
    { addresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'https', port: 6443, protocol: 'TCP' }] },
  ]);
  const [key] = store.keys().filter(key => key.startsWith('Lease/'));
  assert.match(key, /^Lease\/kube-system\/causeway-agent-[0-9a-f]{16}$/);
  const lease = store.peek<Lease>(key);
  assert.equal(lease?.spec?.renewTime, '2026-01-01T00:00:00.000000Z');
  assert.equal(lease?.spec?.leaseDurationSeconds, 40);
  assert.equal(lease?.metadata.annotations?.['causeway.dev/endpoints'], '192.0.2.1:6443');
});

test('keepEndpoints() renews its lease every 10 s and writes nothing else without a change', async () => {
  const { store, clock, agent } = given();
  await using _ = agent('192.0.2.1');
  await clock.advance(0);
  store.writes.length = 0;
  await clock.advance(60_000);
  assert.equal(store.writes.length, 6);
  assert.ok(store.writes.every(write => write.startsWith('replace Lease/')));
});

test('keepEndpoints() merges three agents, and removes the address of one that ends', async () => {
  const { store, clock, agent } = given();
  await using _1 = agent('192.0.2.1');
  const second = agent('192.0.2.2');
  await using _3 = agent('192.0.2.3');
  await clock.advance(1000);
  assert.deepEqual(addresses(store), ['192.0.2.1', '192.0.2.2', '192.0.2.3']);
  assert.deepEqual(oldAddresses(store), ['192.0.2.1', '192.0.2.2', '192.0.2.3']);
  await second[Symbol.asyncDispose]();
  assert.deepEqual(addresses(store), ['192.0.2.1', '192.0.2.3']);
  assert.deepEqual(oldAddresses(store), ['192.0.2.1', '192.0.2.3']);
  await clock.advance(60_000);
  assert.deepEqual(addresses(store), ['192.0.2.1', '192.0.2.3']);
  assert.equal(store.keys().filter(key => key.startsWith('Lease/')).length, 2);
});

test('keepEndpoints() removes an agent that died, 40 s after its last renewal', async () => {
  const { store, clock, agent } = given();
  await using _ = agent('192.0.2.1');
  const api = store.client();
  let killed = false;
  const hung = new Promise<never>(() => {});
  const victim = Object.fromEntries(
    Object.entries(api).map(([name, call]) => [
      name,
      (...args: never) => (killed ? hung : call(...(args as [never, never, never]))),
    ]),
  ) as unknown as typeof api;
  agent('192.0.2.2', { api: victim });
  await clock.advance(1000);
  assert.deepEqual(addresses(store), ['192.0.2.1', '192.0.2.2']);
  killed = true;
  await clock.advance(39_000);
  assert.deepEqual(addresses(store), ['192.0.2.1', '192.0.2.2']);
  await clock.advance(21_000);
  assert.deepEqual(addresses(store), ['192.0.2.1']);
  assert.deepEqual(oldAddresses(store), ['192.0.2.1']);
  assert.equal(store.keys().filter(key => key.startsWith('Lease/')).length, 1);
});

test('keepEndpoints() removes no agent after an outage in which none could renew', async () => {
  const { store, clock, agent } = given();
  await using _1 = agent('192.0.2.1');
  await using _2 = agent('192.0.2.2');
  await clock.advance(1000);
  store.fault = () => ({ status: 0, reason: 'Unreachable', message: 'connect ECONNREFUSED' });
  await clock.advance(300_000);
  store.writes.length = 0;
  store.fault = undefined;
  await clock.advance(60_000);
  assert.deepEqual(addresses(store), ['192.0.2.1', '192.0.2.2']);
  assert.deepEqual(
    store.writes.filter(write => !write.startsWith('replace Lease/')),
    [],
  );
});

test('keepEndpoints() keeps an address that two agents share until the second one ends', async () => {
  const { store, clock, agent } = given();
  const old = agent('192.0.2.1', { identity: 'node/old' });
  await using _ = agent('192.0.2.1', { identity: 'node/new' });
  await clock.advance(1000);
  await old[Symbol.asyncDispose]();
  assert.deepEqual(addresses(store), ['192.0.2.1']);
});

test('keepEndpoints() removes addresses that an earlier reconciler of the API server left', async () => {
  const stale: EndpointSlice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: 'kubernetes',
      namespace: 'default',
      labels: { 'kubernetes.io/service-name': 'kubernetes', 'example.com/kept': 'yes' },
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['198.51.100.7'], conditions: { ready: true } }],
    ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
  };
  const { store, clock, agent, findings } = given(kubernetesService('10.96.0.1'), stale);
  await using _ = agent('192.0.2.1');
  await clock.advance(1000);
  assert.deepEqual(addresses(store), ['192.0.2.1']);
  assert.equal(store.peek(SLICE)?.metadata.labels?.['example.com/kept'], 'yes');
  assert.deepEqual(findings, []);
});

test('keepEndpoints() recreates a slice of the wrong family', async () => {
  const stale: EndpointSlice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'kubernetes', namespace: 'default' },
    addressType: 'IPv4',
    endpoints: [],
  };
  const { store, clock, agent } = given(kubernetesService('2001:db8:96::1'), stale);
  await using _ = agent('2001:db8::1');
  await clock.advance(1000);
  assert.equal(store.peek<EndpointSlice>(SLICE)?.addressType, 'IPv6');
  assert.deepEqual(addresses(store), ['2001:db8::1']);
});

test('keepEndpoints() writes a second slice for the second family of the Service', async () => {
  const { store, clock, agent } = given(kubernetesService('10.96.0.1', '2001:db8:96::1'));
  await using _1 = agent(['192.0.2.1', '2001:DB8:0::1']);
  await using _2 = agent(['192.0.2.2', '2001:db8::2']);
  await clock.advance(1000);
  assert.deepEqual(addresses(store), ['192.0.2.1', '192.0.2.2']);
  assert.deepEqual(addresses(store, `${SLICE}-ipv6`), ['2001:db8::1', '2001:db8::2']);
  assert.equal(store.peek<EndpointSlice>(`${SLICE}-ipv6`)?.addressType, 'IPv6');
  assert.deepEqual(oldAddresses(store), ['192.0.2.1', '192.0.2.2']);
});

test('keepEndpoints() names the second slice -ipv4 if IPv6 comes first, and removes it with the family', async () => {
  const { store, clock, agent } = given(kubernetesService('2001:db8:96::1', '10.96.0.1'));
  await using _ = agent(['192.0.2.1', '2001:db8::1']);
  await clock.advance(1000);
  assert.deepEqual(addresses(store), ['2001:db8::1']);
  assert.deepEqual(addresses(store, `${SLICE}-ipv4`), ['192.0.2.1']);
  const service = {
    ...store.peek('Service/default/kubernetes'),
    spec: kubernetesService('2001:db8:96::1').spec,
  };
  await store
    .client('kube-apiserver')
    .replace({ group: '', version: 'v1', plural: 'services', kind: 'Service' }, service as KubeObject);
  await clock.advance(10_000);
  assert.equal(store.peek(`${SLICE}-ipv4`), undefined);
});

for (const [address, why] of [
  ['127.0.0.1', /a loopback address$/],
  ['::1', /a loopback address$/],
  ['::ffff:127.0.0.1', /a loopback address$/],
  ['169.254.1.1', /a link-local address$/],
  ['fe80::1', /a link-local address$/],
  ['0.0.0.0', /unspecified$/],
  ['::', /unspecified$/],
  ['224.0.0.1', /a multicast address$/],
  ['node-1', /not an IP address$/],
] as const) {
  test(`keepEndpoints() refuses ${address}`, () => {
    const { agent } = given();
    assert.throws(
      () => agent(address),
      error => error instanceof AdvertiseError && why.test(error.message),
    );
  });
}

test('keepEndpoints() never writes an address of the Service network', async () => {
  const cidr = {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    metadata: { name: 'kubernetes' },
    spec: { cidrs: ['10.96.0.0/16'] },
  };
  const { store, clock, agent, findings } = given(kubernetesService('10.96.0.1'), cidr);
  await using _1 = agent('10.96.0.1');
  await using _2 = agent('10.96.7.7');
  await using _3 = agent('192.0.2.1');
  await clock.advance(1000);
  assert.deepEqual(addresses(store), ['192.0.2.1']);
  assert.deepEqual(
    findings.flat().map(({ code, severity }) => `${severity} ${code}`),
    ['error EndpointIsClusterIp', 'error EndpointIsClusterIp'],
  );
  assert.match(findings.flat().at(-1)?.text ?? '', /^--advertise 10\.96\.7\.7 is an address of the Service/);
});

test("keepEndpoints() reports that it has no address of the Service's family", async () => {
  const { store, clock, agent, findings } = given();
  await using _ = agent('2001:db8::1');
  await clock.advance(1000);
  assert.deepEqual(addresses(store), []);
  assert.deepEqual(
    findings.flat().map(({ code }) => code),
    ['EndpointFamilyMissing'],
  );
});

test('keepEndpoints() uses the port of most agents, without repeated writes', async () => {
  const { store, clock, agent, findings } = given();
  await using _1 = agent('192.0.2.1');
  await using _2 = agent('192.0.2.2', { port: 7443 });
  await using _3 = agent('192.0.2.3');
  await clock.advance(20_000);
  assert.deepEqual(addresses(store), ['192.0.2.1', '192.0.2.3']);
  assert.deepEqual(new Set(findings.at(-1)?.map(({ code }) => code)), new Set(['EndpointPortsDiffer']));
  store.writes.length = 0;
  await clock.advance(60_000);
  assert.ok(
    store.writes.every(write => write.startsWith('replace Lease/')),
    store.writes.join(),
  );
});

test('keepEndpoints() does not fight with agents that use another cluster name', async () => {
  const { store, clock, agent } = given();
  await using _1 = agent('192.0.2.1');
  await using _2 = agent('192.0.2.2', { cluster: 'b' });
  await clock.advance(20_000);
  assert.deepEqual(addresses(store), ['192.0.2.1', '192.0.2.2']);
  store.writes.length = 0;
  await clock.advance(60_000);
  assert.ok(
    store.writes.every(write => write.startsWith('replace Lease/')),
    store.writes.join(),
  );
});

test('keepEndpoints() backs off for 10 minutes when its write is reverted, then retries', async () => {
  const { store, clock, agent, findings, lines } = given();
  await using _ = agent('192.0.2.1');
  await clock.advance(1000);
  await writeAs(store, 'kube-apiserver', '198.51.100.7');
  await clock.advance(10_000);
  assert.deepEqual(
    findings.at(-1)?.map(({ code, severity }) => `${severity} ${code}`),
    ['error EndpointsOverwritten'],
  );
  assert.match(findings.at(-1)?.[0].text ?? '', /'kube-apiserver'/);
  assert.match(findings.at(-1)?.[0].fix ?? '', /--endpoint-reconciler-type=none/);
  assert.ok(!lines.some(line => line.includes('kube-apiserver')), 'reported only as a finding');
  assert.deepEqual(addresses(store), ['198.51.100.7']);
  store.writes.length = 0;
  await clock.advance(590_000);
  assert.ok(store.writes.length > 50 && store.writes.every(write => write.startsWith('replace Lease/')));
  await clock.advance(20_000);
  assert.deepEqual(addresses(store), ['192.0.2.1']);
  assert.equal(findings.at(-1)?.length, 1, 'until the write has lasted');
  await clock.advance(80_000);
  assert.deepEqual(findings.at(-1), []);
});

test('keepEndpoints() corrects a change that comes long after its write', async () => {
  const { store, clock, agent, findings } = given();
  await using _ = agent('192.0.2.1');
  await clock.advance(120_000);
  await writeAs(store, 'kubectl-edit', '198.51.100.7');
  await clock.advance(10_000);
  assert.deepEqual(addresses(store), ['192.0.2.1']);
  assert.deepEqual(findings, []);
});

test('keepEndpoints() recreates a deleted slice, but backs off when it is deleted again', async () => {
  const { store, clock, agent, findings } = given();
  await using _ = agent('192.0.2.1');
  await clock.advance(1000);
  const remove = async () => {
    const slice = store.peek<EndpointSlice>(SLICE);
    assert.ok(slice);
    await store.client('kubectl').remove(endpointSlices, slice);
  };
  await remove();
  await clock.advance(10_000);
  assert.deepEqual(addresses(store), ['192.0.2.1']);
  await remove();
  await clock.advance(10_000);
  assert.equal(addresses(store), undefined);
  assert.deepEqual(
    findings.at(-1)?.map(({ code }) => code),
    ['EndpointsOverwritten'],
  );
});

test('keepEndpoints() recreates its lease after it was deleted', async () => {
  const { store, clock, agent } = given();
  await using _ = agent('192.0.2.1');
  await clock.advance(1000);
  const key = store.keys().find(key => key.startsWith('Lease/')) ?? '';
  await store.client().remove(leases, store.peek(key) as Lease);
  await clock.advance(10_000);
  assert.ok(store.peek(key));
});

test('keepEndpoints() waits for the API server, retries at least every 10 s, and logs it once', async () => {
  const { store, clock, agent, lines } = given();
  let tries = 0;
  store.fault = () => {
    tries++;
    return { status: 0, reason: 'Unreachable', message: 'connect ECONNREFUSED 192.0.2.1:6443' };
  };
  await using kept = agent('192.0.2.1');
  await clock.advance(3_600_000);
  assert.ok(tries >= 360 && tries < 400, `${tries} tries in an hour`);
  assert.deepEqual(lines, [
    'warn: Cannot maintain the endpoints of default/kubernetes; retrying: Unreachable: connect ECONNREFUSED 192.0.2.1:6443',
  ]);
  store.fault = undefined;
  await clock.advance(10_000);
  await kept.settled;
  assert.deepEqual(addresses(store), ['192.0.2.1']);
  assert.equal(lines.filter(line => line.includes('answers again')).length, 1);
});

test('keepEndpoints() recovers from a failure of any single call', async () => {
  const { store, clock, agent } = given();
  await using _ = agent('192.0.2.1');
  const plurals = ['services', 'servicecidrs', 'endpointslices', 'endpoints', 'leases'];
  for (const [i, plural] of plurals.entries()) {
    store.fault = (_, called) =>
      called === plural ? { status: 500, reason: 'InternalError', message: 'etcd' } : undefined;
    await clock.advance(30_000);
    store.fault = undefined;
    await using _ = agent(`192.0.2.${i + 10}`);
    await clock.advance(30_000);
    assert.deepEqual(addresses(store), ['192.0.2.1', `192.0.2.${i + 10}`], plural);
  }
});

test('keepEndpoints() recovers from unexpected objects', async () => {
  const { store, clock, agent, lines } = given();
  const client = store.client();
  let answer: { ok: true; value: never } | undefined = { ok: true, value: null as never };
  const api = {
    ...client,
    get: (...args: Parameters<typeof client.get>) => (answer ? Promise.resolve(answer) : client.get(...args)),
  };
  await using _ = agent('192.0.2.1', { api: api as typeof client });
  await clock.advance(20_000);
  assert.match(lines[0], /^warn: .*: Unexpected: TypeError/);
  answer = undefined;
  await clock.advance(20_000);
  assert.deepEqual(addresses(store), ['192.0.2.1']);
});

test('keepEndpoints() ends within seconds when the API server does not answer', async () => {
  const { store, clock, agent } = given();
  const kept = agent('192.0.2.1');
  await clock.advance(1000);
  store.gate = () => new Promise(() => {});
  const end = kept[Symbol.asyncDispose]();
  const state = () => Promise.race([end.then(() => 'ended'), Promise.resolve('waiting')]);
  await clock.advance(4000);
  assert.equal(await state(), 'waiting');
  await clock.advance(1000);
  await end;
});

test('keepEndpoints() reconciles less often when there are many agents', async () => {
  const { store, clock, agent } = given();
  await using stack = new AsyncDisposableStack();
  for (let i = 0; i < 60; i++) stack.use(agent(`192.0.2.${i + 1}`));
  await clock.advance(60_000);
  assert.equal(addresses(store)?.length, 60);
  let reconciled = 0;
  store.gate = async label => {
    if (label === 'list leases') reconciled++;
  };
  await clock.advance(120_000);
  assert.ok(reconciled >= 60 && reconciled <= 300, `60 agents reconciled ${reconciled} times in 2 minutes`);
});

test('keepEndpoints() loses no living address and keeps no dead one, for any interleaving of calls', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.integer({ min: 2, max: 3 }),
      fc.integer({ min: 0, max: 2 }),
      async (scheduler, staying, leaving) => {
        const store = memoryStore(kubernetesService('10.96.0.1'));
        store.gate = label => scheduler.schedule(Promise.resolve(), label);
        const agents = Array.from({ length: staying + leaving }, (_, i) =>
          keepEndpoints({
            api: store.client(),
            cluster: 'a',
            identity: `node-${i}`,
            advertise: [`192.0.2.${i + 1}`],
            port: 6443,
            leaseNamespace: 'kube-system',
            log: () => {},
            random: () => 0.5,
            clock: {
              now: () => 0,
              date: () => new Date(0),
              // Waits after a conflict end at once, those between rounds never end.
              wait: (ms, signal) =>
                new Promise(resolve => {
                  if (ms < 5000 || signal.aborted) resolve();
                  else signal.addEventListener('abort', () => resolve());
                }),
            },
          }),
        );
        const ends = agents.map(async (agent, i) => {
          // Some end at any moment, also before they have settled.
          if (i >= staying) await scheduler.schedule(Promise.resolve(), `agent ${i} leaves`);
          await (i < staying ? agent.settled : agent[Symbol.asyncDispose]());
        });
        await scheduler.waitFor(Promise.all(ends));
        await scheduler.waitIdle();
        const expected = Array.from({ length: staying }, (_, i) => `192.0.2.${i + 1}`);
        assert.deepEqual(addresses(store), expected);
        assert.deepEqual(oldAddresses(store), expected);
        store.gate = async () => {};
        await Promise.all(agents.map(agent => agent[Symbol.asyncDispose]()));
        assert.deepEqual(addresses(store), []);
      },
    ),
    { numRuns: 100 },
  );
});
