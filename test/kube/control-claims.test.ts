// Tenants who try to take what belongs to others, with annotated Services in namespaces of a real API server: hosts, ids
// and clusters of another namespace, hosts under its wildcard, backends that lead to this machine. The loser is told.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingNetns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';
import { addAccount, grantAccess } from './grant-rights.ts';

const skip =
  missingPrograms('openssl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl') || missingNetns();
/** creationTimestamp has seconds; within one the UID decides. */
const OLDER_MS = 1100;

interface ClusterAnswer {
  readonly name: string;
  readonly id: string | null;
  readonly routes: readonly { readonly hosts: readonly string[]; readonly backends: readonly unknown[] }[];
  readonly findings: readonly { readonly code: string }[];
}

describe('claims of tenants against each other', { skip, timeout: 600_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let server: ApiServer;
  let gateway: Causeway;
  let machine: string;

  before(async () => {
    dir = stack.use(await tempDir());
    // An EndpointSlice cannot have a loopback address.
    ({ machine } = stack.use(await netns({ name: 'claims' })));
    server = stack.use(await startApiServer({ bindAddress: machine, sans: [machine] }));
    for (const namespace of ['team-a', 'team-b']) await server.kubectl('create', 'namespace', namespace);
    await addAccount(server);
    await writeFile(dir.file('kubeconfig'), '');
    const config = `listen: ["127.0.0.1:0"]
sources: [{ services: { kubeconfig: ${dir.file('kubeconfig')}, domains: [lab] } }]
lease: { name: causeway, namespace: causeway-system }
`;
    await grantAccess(server, config, dir.file('kubeconfig'));
    gateway = stack.use(await startCauseway({ config }));
    // The owner of everything, older than whoever wants it.
    await expose('team-a', 'own', { hosts: 'own.lab,*.apps.lab', id: 'id-of-a' });
    await until('the owner', async () => (await cluster('team-a.own'))?.id === 'id-of-a');
    await sleep(OLDER_MS);
  });
  after(() => stack.disposeAsync());

  async function expose(
    namespace: string,
    name: string,
    annotations: Readonly<Record<string, string>>,
    spec: object = {},
  ): Promise<void> {
    const ports = [{ name: 'https', port: 443, targetPort: server.port, protocol: 'TCP' }];
    const named = Object.entries(annotations).map(([key, value]) => [`causeway.dev/${key}`, value]);
    const metadata = { name, namespace };
    await server.apply(
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { ...metadata, annotations: Object.fromEntries(named) },
        spec: { ports, ...spec },
      },
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
        addressType: 'IPv4',
        endpoints: [{ addresses: [machine], conditions: { ready: true } }],
        ports: [{ name: 'https', port: server.port, protocol: 'TCP' }],
      },
    );
  }

  async function cluster(name: string): Promise<ClusterAnswer | undefined> {
    const answer = await fetch(`${gateway.admin}/api/v1/clusters`);
    return ((await answer.json()) as readonly ClusterAnswer[]).find(each => each.name === name);
  }

  const hostsOf = async (name: string) => (await cluster(name))?.routes.flatMap(({ hosts }) => hosts);

  /** The loser's Event, for `kubectl describe`. */
  const isTold = (namespace: string, name: string, code: string) =>
    until(`${code} on ${namespace}/${name}`, async () => {
      const about = `involvedObject.name=${name},reason=${code},type=Warning`;
      return (
        (await server.kubectl('get', 'events', '-n', namespace, '--field-selector', about, '-o', 'name')) !==
        ''
      );
    });

  test('a host of another namespace stays where it is', async () => {
    await expose('team-b', 'thief', { hosts: 'own.lab,free.lab' });
    await isTold('team-b', 'thief', 'HostClaimed');
    assert.deepEqual(await hostsOf('team-b.thief'), ['free.lab']);
    assert.deepEqual(await hostsOf('team-a.own'), ['own.lab', '*.apps.lab']);
  });

  test('a host under the wildcard of another namespace is refused', async () => {
    await expose('team-b', 'under', { hosts: 'login.apps.lab' });
    await isTold('team-b', 'under', 'HostUnderWildcard');
    assert.deepEqual(await hostsOf('team-b.under'), []);
  });

  test('an id of another namespace stays where it is', async () => {
    await expose('team-b', 'same-id', { hosts: 'same-id.lab', id: 'id-of-a' });
    await isTold('team-b', 'same-id', 'IdClaimed');
    assert.equal((await cluster('team-b.same-id'))?.id, null);
    assert.equal((await cluster('team-a.own'))?.id, 'id-of-a');
  });

  test('a cluster of another namespace cannot be joined, nor taken by name', async () => {
    await expose('team-b', 'joins', { hosts: 'joins.lab', cluster: 'team-a.own', route: 'extra' });
    await isTold('team-b', 'joins', 'NameClaimed');
    assert.equal((await cluster('team-a.own'))?.routes.length, 1);
  });

  test('a host outside the domains of the source is refused', async () => {
    await expose('team-b', 'outside', { hosts: 'www.example.com' });
    await isTold('team-b', 'outside', 'HostOutsideDomains');
  });

  test('backends that lead elsewhere are refused', async () => {
    await expose('team-b', 'named', { hosts: 'named.lab' }, { type: 'ExternalName', externalName: 'x.lab' });
    await isTold('team-b', 'named', 'BackendForbidden');
    assert.deepEqual((await cluster('team-b.named'))?.routes[0].backends, []);
  });

  test('whoever waits for a host gets it when its owner is deleted, and keeps it', async () => {
    await server.kubectl('delete', 'service', 'own', '-n', 'team-a');
    await until('the host', async () => (await hostsOf('team-b.thief'))?.includes('own.lab'));
    // The owner comes back as a younger object.
    await expose('team-a', 'own', { hosts: 'own.lab,other.lab' });
    await isTold('team-a', 'own', 'HostClaimed');
    assert.deepEqual(await hostsOf('team-a.own'), ['other.lab']);
    assert.deepEqual(await hostsOf('team-b.thief'), ['own.lab', 'free.lab']);
  });

  test('a condition says whether a Service is served', async () => {
    const wait = (name: string, value: string) =>
      server.kubectl(
        'wait',
        `--for=condition=causeway.dev/Ready=${value}`,
        `service/${name}`,
        '-n',
        'team-b',
        '--timeout=60s',
      );
    await wait('thief', 'true');
    await wait('named', 'false');
    const reason = `jsonpath={.status.conditions[?(@.type=="causeway.dev/Ready")].reason}`;
    const found = await server.kubectl('get', 'service', 'named', '-n', 'team-b', '-o', reason);
    assert.equal(found, 'BackendForbidden');
  });
});
