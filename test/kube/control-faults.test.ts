// Two replicas with one lease while things go wrong between them and the API server: connections are cut every second,
// one replica is cut off while history is compacted, the other is killed, and one has a wrong clock. Meanwhile Services
// come, change and go at random. No write is lost, none is made twice, and no route that should stay is ever missing.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, createServer } from 'node:tls';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { objectName } from '../../src/outputs/object-name.ts';
import { authority } from '../../testbed/certificates.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { kubeconfig } from '../../testbed/kubectl.ts';
import { missingNetns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { type Etcd, startEtcd } from '../../testbed/start-etcd.ts';
import { startTcpProxy, type TcpProxy } from '../../testbed/start-tcp-proxy.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';
import { seededRandom } from '../interop/seeded-random.ts';
import { type AuditEvent, auditEvents, auditPolicy, tokenId } from './audit-log.ts';
import { accountToken, addAccount, grantRights } from './grant-rights.ts';
import { type ChurnBackend, ServiceChurn } from './service-churn.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl') ||
  missingNetns();
const SEED = Number(process.env.CAUSEWAY_TEST_SEED ?? 1);
const NAMESPACE = 'apps';
const STAYING = ['stay-1', 'stay-2', 'stay-3'];
const CHANGING = Array.from({ length: 8 }, (_, i) => `change-${i}`);
/** A lease that is not renewed is free after 15 s, which is noticed within 5 s. */
const TAKE_OVER_MS = 90_000;
/** How far the clock of one replica is ahead. */
const AHEAD_MS = 7 * 60_000;

interface Replica {
  readonly causeway: Causeway;
  readonly proxy: TcpProxy;
  /** Of its token, in the audit log. */
  readonly token: string;
}

describe('two replicas under faults', { skip, timeout: 600_000 }, () => {
  const stack = new AsyncDisposableStack();
  const random = seededRandom(SEED);
  const missing: string[] = [];
  const unwatched = new Set<Replica>();
  let dir: TempDir;
  let store: Etcd;
  let management: ApiServer;
  let replicas: readonly Replica[];
  let churn: ServiceChurn;
  let holder: Replica;
  let other: Replica;

  before(async () => {
    dir = stack.use(await tempDir());
    // An EndpointSlice cannot have a loopback address.
    const { machine } = stack.use(await netns({ name: 'faults' }));
    store = stack.use(await startEtcd());
    await writeFile(dir.file('policy.yaml'), JSON.stringify(auditPolicy));
    management = stack.use(await startApiServer({ store, flags: auditFlags() }));
    await management.kubectl('create', 'namespace', NAMESPACE);
    await addAccount(management);
    await grantRights(management, config(''));
    const backends = await Promise.all(['one', 'two', 'three'].map(name => startBackend(name, machine)));
    const access = await openKubeAccess({ kubeconfig: await management.kubeconfig() });
    const api = stack.use(openKubeClient({ access }));
    churn = new ServiceChurn(api, { random, backends, namespace: NAMESPACE, names: CHANGING });
    for (const name of STAYING) await churn.create(name);
    replicas = [await startReplica('a'), await startReplica('b', { NODE_OPTIONS: await wrongClock() })];
    stack.defer(watchStaying());
  });
  after(() => stack.disposeAsync());

  function auditFlags(): readonly string[] {
    return [`--audit-policy-file=${dir.file('policy.yaml')}`, `--audit-log-path=${dir.file('audit.log')}`];
  }

  function config(file: string): string {
    const where = file === '' ? '' : `kubeconfig: ${file}, `;
    return `listen: ["127.0.0.1:0"]
sources: [{ services: { ${where}namespaces: [${NAMESPACE}], domains: [apps.test] } }]
outputs: [{ ingress: {} }]
lease: { name: causeway, namespace: causeway-system }
`;
  }

  /** A TLS server that says its name. */
  async function startBackend(name: string, address: string): Promise<ChurnBackend> {
    const { certFile, keyFile } = await (await authority()).certificateFor('apps.test');
    const server = createServer({ cert: await readFile(certFile), key: await readFile(keyFile) }, socket => {
      socket.on('error', () => {}).resume();
      socket.end(name);
    });
    // Health checks end their connections during the handshake.
    server.on('tlsClientError', () => {});
    server.listen(0, address);
    await once(server, 'listening');
    stack.defer(() => void server.close());
    return { name, address, port: (server.address() as AddressInfo).port };
  }

  async function startReplica(name: string, env: Readonly<Record<string, string>> = {}): Promise<Replica> {
    const proxy = stack.use(await startTcpProxy(management.port));
    const token = await accountToken(management);
    const server = `https://127.0.0.1:${proxy.port}`;
    const file = dir.file(`kubeconfig-${name}`);
    await writeFile(file, await kubeconfig({ server, caFile: management.caFile, user: { token } }));
    const causeway = stack.use(await startCauseway({ config: config(file), env }));
    await until('every staying route', async () => {
      const answers = await Promise.all(STAYING.map(each => isServed(causeway, each)));
      return answers.every(Boolean);
    });
    return { causeway, proxy, token: tokenId(token) };
  }

  /** NODE_OPTIONS by which the time of day is ahead. */
  async function wrongClock(): Promise<string> {
    const file = dir.file('wrong-clock.mjs');
    await writeFile(
      file,
      `const Right = Date;
globalThis.Date = class Date extends Right {
  constructor(...given) { if (given.length === 0) super(Date.now()); else super(...given); }
  static now() { return Right.now() + ${AHEAD_MS}; }
};
`,
    );
    return `--import=${file}`;
  }

  /** Asks every replica for every staying route, again and again. Returns what ends it. */
  function watchStaying(): () => Promise<void> {
    const end = new AbortController();
    const watching = replicas.map(async replica => {
      while (!end.signal.aborted && !unwatched.has(replica)) {
        for (const name of STAYING) {
          const isThere = await isServed(replica.causeway, name);
          if (!isThere && !unwatched.has(replica)) missing.push(`${name} at ${replica.causeway.port}`);
        }
        await delay(20);
      }
    });
    return async () => {
      end.abort();
      await Promise.all(watching);
    };
  }

  async function isServed(causeway: Causeway, name: string): Promise<boolean> {
    const { host, backend } = churn.exposed.get(name) as { host: string; backend: ChurnBackend };
    return (await say(causeway.port, host)) === backend.name;
  }

  /** A replica serves exactly what the Services say. */
  async function serves({ causeway }: Replica): Promise<void> {
    const expected = new Map([...churn.exposed.values()].map(({ host, backend }) => [host, backend.name]));
    for (const host of churn.hosts) {
      const wanted = expected.get(host) ?? '';
      await until(`${host} to be '${wanted}'`, async () => (await say(causeway.port, host)) === wanted);
    }
  }

  /** The Ingresses are exactly those wanted. */
  async function ingressesAreWritten(): Promise<void> {
    const wanted = [...churn.exposed].map(([name, { host }]) => [
      objectName('ingress', `${NAMESPACE}.${name}`),
      host,
      name,
    ]);
    await until('the Ingresses', async () => {
      const found = (await list<Ingress>('ingresses')).map(({ metadata, spec: { rules } }) => [
        metadata.name,
        ...rules.flatMap(({ host, http }) => [host, ...http.paths.map(each => each.backend.service.name)]),
      ]);
      return JSON.stringify(found.toSorted()) === JSON.stringify(wanted.toSorted());
    });
  }

  /** Each status is what its Service says. One object is written at most every 10 s. */
  async function statusesAreWritten(): Promise<void> {
    await until('the statuses', async () => {
      const found = await list<KubeObject>('services');
      return found.every(({ metadata: { name, annotations } }) => {
        const { ready, hosts } = JSON.parse(annotations?.['causeway.dev/status'] ?? '{}');
        return ready === true && String(hosts) === churn.exposed.get(name)?.host;
      });
    });
  }

  async function list<T>(plural: string): Promise<readonly T[]> {
    const text = await management.kubectl('get', plural, '-n', NAMESPACE, '-o', 'json');
    return (JSON.parse(text) as { items: readonly T[] }).items;
  }

  async function steps(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      await churn.step();
      await delay(random.between(0, 250));
    }
  }

  const leads = async ({ causeway }: Replica) => (await causeway.status()).leader === true;

  test('one replica has a clock that is minutes ahead', async () => {
    const [a, b] = await Promise.all(
      replicas.map(({ causeway }) => causeway.line(({ msg }) => msg === 'ready')),
    );
    assert.ok(new Date(String(b.time)).getTime() - new Date(String(a.time)).getTime() > AHEAD_MS / 2);
  });

  test('both follow and the holder writes while all connections are cut every second', async t => {
    [holder, other] = await until('a leader', async () => {
      const [first, second] = replicas;
      if (await leads(first)) return [first, second];
      return (await leads(second)) ? [second, first] : undefined;
    });
    const before = replicas.map(({ proxy }) => proxy.connections());
    const cutting = setInterval(() => {
      for (const { proxy } of replicas) proxy.cut();
    }, 1000);
    try {
      await steps(60);
    } finally {
      clearInterval(cutting);
    }
    for (const replica of replicas) await serves(replica);
    await ingressesAreWritten();
    const made = replicas.map(({ proxy }, i) => proxy.connections() - before[i]);
    t.diagnostic(`connections to the API server meanwhile: ${made.join(' and ')}`);
    assert.ok(made.every(count => count > 3));
    assert.deepEqual(missing, []);
  });

  test('a holder that is cut off loses the lease and serves on', async () => {
    holder.proxy.refuse(true);
    await steps(10);
    await store.compact();
    const { port } = management;
    await management.stop();
    // Its watch cache begins at the current revision: what came before is 410 Expired.
    management = stack.use(
      await startApiServer({ store, port, authority: management.authority, flags: auditFlags() }),
    );
    await steps(10);
    await until('the other to lead', () => leads(other), TAKE_OVER_MS);
    assert.equal(await leads(holder), false);
    await steps(10);
    await serves(other);
    await ingressesAreWritten();
    assert.deepEqual(missing, []);
  });

  test('a holder that is killed is followed by the other, which first has to list again', async () => {
    const lists = async () =>
      (await auditEvents(dir.file('audit.log'))).filter(
        ({ verb, token }) => verb === 'list' && token === holder.token,
      ).length;
    const before = await lists();
    unwatched.add(other);
    other.causeway.program.signal('SIGKILL');
    await other.causeway.program.ended;
    holder.proxy.refuse(false);
    await steps(10);
    await until('the first to lead again', () => leads(holder), TAKE_OVER_MS);
    await steps(5);
    await serves(holder);
    assert.ok((await lists()) > before, 'no new list: its watch was not refused');
    await ingressesAreWritten();
    await statusesAreWritten();
    assert.deepEqual(missing, []);
  });

  test('only the holder of the lease wrote, each write changed something, and none was made twice', async t => {
    const events = (await auditEvents(dir.file('audit.log'))).filter(isSuccess);
    const tokens = new Set(replicas.map(({ token }) => token));
    const ofLease = events.filter(({ resource, token }) => resource === 'leases' && tokens.has(token));
    const written = events.filter(({ resource, token }) => resource !== 'leases' && tokens.has(token));
    const leaders = ofLease.filter(({ token }, i) => token !== ofLease[i - 1]?.token);
    assert.deepEqual(
      leaders.map(({ token }) => token),
      [holder, other, holder].map(({ token }) => token),
    );
    for (const event of written) {
      const leader = ofLease.findLast(({ at }) => at <= event.at);
      assert.equal(event.token, leader?.token, `${JSON.stringify(event)} was not written by the holder`);
    }
    // A write without a change has the resourceVersion of an earlier one.
    const objects = events.filter(({ resource }) => resource === 'ingresses' || resource === 'services');
    const byVersion = Map.groupBy(
      objects.filter(({ resourceVersion }) => resourceVersion !== ''),
      ({ resource, name, resourceVersion }) => `${resource} ${name} ${resourceVersion}`,
    );
    for (const same of byVersion.values())
      assert.ok(
        same.length === 1 || same.every(({ token }) => !tokens.has(token)),
        `written without a change: ${JSON.stringify(same)}`,
      );
    for (const name of [...STAYING, ...CHANGING]) {
      const ingress = objectName('ingress', `${NAMESPACE}.${name}`);
      const own = written.filter(event => event.resource === 'ingresses' && event.name === ingress);
      const created = own.filter(({ code }) => code === 201).length;
      const limit = churn.created.get(name) ?? 0;
      assert.ok(created <= limit, `${ingress} was created ${created} times for ${limit} Services`);
      if (STAYING.includes(name)) assert.equal(own.length, 1, `${ingress} was written ${own.length} times`);
    }
    const count = (token: string) => written.filter(event => event.token === token).length;
    const counts = replicas.map(({ token }) => count(token));
    t.diagnostic(
      `seed ${SEED}: ${churn.hosts.size} hosts, ${counts.join(' and ')} writes by the two replicas`,
    );
    assert.ok(counts.every(each => each > 0));
  });
});

interface Ingress extends KubeObject {
  readonly spec: {
    readonly rules: readonly {
      readonly host: string;
      readonly http: { readonly paths: readonly { backend: { service: { name: string } } }[] };
    }[];
  };
}

function isSuccess({ verb, code }: AuditEvent): boolean {
  return verb !== 'list' && code >= 200 && code < 300;
}

/** What the server behind a host says; empty where the gateway refuses. */
function say(port: number, servername: string): Promise<string> {
  return new Promise(resolve => {
    let text = '';
    const socket = connect({ port, host: '127.0.0.1', servername, rejectUnauthorized: false });
    socket.on('data', chunk => (text += chunk));
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });
}
