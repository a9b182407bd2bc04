import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Backend, Cluster } from '../cluster/cluster.ts';
import { anyClusters, sampleCluster, sampleOrigin, sampleRoute } from '../cluster/clusters.samples.ts';
import { wildcardOf } from '../cluster/hostname.ts';
import { forbiddenBackend } from './forbidden-backend.ts';
import { type Plan, plan } from './plan.ts';

test('plan() does not change clusters without conflicts', () => {
  const clusters = [
    sampleCluster('a', { id: '1', routes: [sampleRoute({ hosts: ['a.lab'] })] }),
    sampleCluster('b', { id: '2', routes: [sampleRoute({ hosts: ['b.lab', '*.b.lab'] })] }),
  ];
  assert.deepEqual(plan(clusters), {
    clusters,
    findings: [],
    counts: { clusters: 2, routes: 2, hosts: 3 },
  });
});

test('plan() gives a host to the first claimant, and the other a finding', () => {
  const { clusters, findings } = plan([
    sampleCluster('old', { routes: [sampleRoute({ hosts: ['x.lab'] })] }),
    sampleCluster('new', { routes: [sampleRoute({ hosts: ['x.lab', 'y.lab'] })] }),
  ]);
  assert.deepEqual(clusters[1].routes[0].hosts, ['y.lab']);
  assert.deepEqual(findings, [
    {
      cluster: 'new',
      severity: 'error',
      code: 'HostClaimed',
      text: "'x.lab' belongs to cluster 'old', which claimed it first",
      fix: "Give cluster 'new' a different name, or remove this one from 'old'",
    },
  ]);
});

test('plan() lets one cluster use a host for TLS and HTTP, and on two routes with different ALPN', () => {
  const { findings } = plan([
    sampleCluster('a', {
      routes: [
        sampleRoute({ kind: 'apps-https', hosts: ['*.apps.lab'] }),
        sampleRoute({ kind: 'apps-http', hosts: ['*.apps.lab'] }),
        sampleRoute({ kind: 'own', hosts: ['*.apps.lab'], alpn: ['own'] }),
      ],
    }),
  ]);
  assert.deepEqual(findings, []);
});

test('plan() gives "*" to one cluster for TLS and one for HTTP, and only to clusters in the file', () => {
  const all = (kind: string) => sampleRoute({ kind, hosts: ['*', `${kind}.lab`] });
  const { clusters, findings, counts } = plan([
    sampleCluster('a', { routes: [all('own')] }),
    sampleCluster('b', { routes: [all('apps-https'), all('apps-http')] }),
    sampleCluster('c', { routes: [all('apps-http')] }),
    sampleCluster('foreign', { origin: sampleOrigin('services', 'x', 'y'), routes: [all('own')] }),
  ]);
  assert.deepEqual(
    clusters.map(({ routes }) => routes.map(({ hosts }) => hosts.includes('*'))),
    [[true], [false, true], [false], [false]],
  );
  assert.deepEqual(
    findings.map(({ cluster, code }) => `${cluster} ${code}`),
    ['b HostClaimed', 'c HostClaimed', 'c HostClaimed', 'foreign HostInvalid', 'foreign HostClaimed'],
  );
  assert.equal(counts.hosts, 4);
});

test('plan() refuses an id or a CONNECT name that is the name of another cluster', () => {
  const { clusters, findings } = plan([
    sampleCluster('a', { id: 'b', routes: [sampleRoute({ connect: ['b'] })] }),
    sampleCluster('b'),
  ]);
  assert.equal(clusters[0].id, undefined);
  assert.deepEqual(clusters[0].routes[0].connect, []);
  assert.deepEqual(
    findings.map(finding => finding.code),
    ['IdClaimed', 'ConnectNameClaimed'],
  );
});

test('plan() never gives two clusters the same name, id, host or CONNECT name', () => {
  fc.assert(
    fc.property(anyClusters, claimants => {
      const { clusters } = plan(claimants);
      const owners = new Map<string, string>();
      const own = (what: string, cluster: string) => {
        assert.equal(owners.get(what) ?? cluster, cluster, what);
        owners.set(what, cluster);
      };
      for (const { name, id, routes } of clusters) {
        own(`connect ${name}`, name);
        if (id !== undefined) own(`connect ${id.toLowerCase()}`, name);
        for (const route of routes) {
          for (const host of route.hosts) own(`${route.kind === 'apps-http' ? 'http' : 'tls'} ${host}`, name);
          for (const connect of route.connect) own(`connect ${connect}`, name);
        }
      }
    }),
  );
});

test('plan() reports a finding for every claim it removes, and is idempotent', () => {
  fc.assert(
    fc.property(anyClusters, claimants => {
      const first = plan(claimants);
      const claims = (clusters: typeof claimants) =>
        clusters.flatMap(({ id, routes }) => [
          ...(id === undefined ? [] : [id]),
          ...routes.flatMap(route => [...route.hosts, ...route.connect]),
        ]).length;
      assert.equal(claims(claimants) - claims([...first.clusters]), first.findings.length);
      assert.deepEqual(plan(first.clusters).findings, []);
    }),
  );
});

const kamaji = (namespace: string, name: string, age: number, hosts: readonly string[]) =>
  sampleCluster(`${namespace}.${name}`, {
    origin: {
      source: 'kamaji',
      object: {
        apiVersion: 'kamaji.clastix.io/v1alpha1',
        kind: 'TenantControlPlane',
        namespace,
        name,
        uid: `uid-${namespace}-${name}`,
        createdAt: new Date(Date.UTC(2026, 0, 1) - age * 1000).toISOString(),
      },
    },
    routes: [sampleRoute({ hosts })],
  });

const service = (namespace: string, cluster: string, route: Parameters<typeof sampleRoute>[0], age = 0) =>
  sampleCluster(cluster, {
    origin: sampleOrigin('services', namespace, `${route?.kind ?? 'api'}-of-${cluster}`, age),
    routes: [sampleRoute(route)],
  });

const hostsOf = ({ clusters }: Plan) =>
  Object.fromEntries(clusters.map(({ name, routes }) => [name, routes.flatMap(({ hosts }) => hosts)]));
const codesOf = ({ findings }: Plan) => findings.map(({ cluster, code }) => `${cluster} ${code}`);

test('plan() gives a host to the file, then to the oldest object, then by UID, in whatever order they come', () => {
  const claims = [
    sampleCluster('file', { routes: [sampleRoute({ hosts: ['x.lab'] })] }),
    kamaji('n', 'old', 100, ['x.lab', 'y.lab']),
    kamaji('n', 'new-b', 5, ['y.lab', 'z.lab']),
    kamaji('n', 'new-a', 5, ['y.lab', 'z.lab']),
  ];
  const expected = { file: ['x.lab'], 'n.old': ['y.lab'], 'n.new-a': ['z.lab'], 'n.new-b': [] };
  for (const order of [claims, claims.toReversed()]) {
    const result = plan(order);
    assert.deepEqual(hostsOf(result), expected);
    assert.deepEqual(codesOf(result), [
      'n.old HostClaimed',
      'n.new-a HostClaimed',
      'n.new-b HostClaimed',
      'n.new-b HostClaimed',
    ]);
  }
  const loser = plan(claims).findings[0];
  assert.equal(loser.origin?.object?.name, 'old');
});

test("plan() refuses an exact host under another cluster's older wildcard, unless both are of the file", () => {
  const exact = sampleRoute({ hosts: ['api.apps.lab'] });
  const wildcard = sampleRoute({ hosts: ['*.apps.lab'] });
  const byFile = plan([sampleCluster('a', { routes: [wildcard] }), sampleCluster('b', { routes: [exact] })]);
  assert.deepEqual(codesOf(byFile), []);
  const older = plan([kamaji('n', 'wild', 9, ['*.apps.lab']), kamaji('n', 'exact', 1, ['api.apps.lab'])]);
  assert.deepEqual(codesOf(older), ['n.exact HostUnderWildcard']);
  const younger = plan([kamaji('n', 'wild', 1, ['*.apps.lab']), kamaji('n', 'exact', 9, ['api.apps.lab'])]);
  assert.deepEqual(codesOf(younger), []);
  const ofFile = plan([
    sampleCluster('a', { routes: [wildcard] }),
    kamaji('n', 'exact', 9, ['api.apps.lab']),
  ]);
  assert.deepEqual(codesOf(ofFile), ['n.exact HostUnderWildcard']);
  // HTTP and TLS are claimed apart.
  const http = service('n', 'n.web', { kind: 'apps-http', hosts: ['api.apps.lab'] });
  assert.deepEqual(codesOf(plan([kamaji('n', 'wild', 9, ['*.apps.lab']), http])), []);
});

test("plan() keeps the tunnel's hosts from everybody", () => {
  const claims = [sampleCluster('a', { routes: [sampleRoute({ hosts: ['t.lab', 'a.lab'] })] })];
  const result = plan(claims, { reserved: ['t.lab'] });
  assert.deepEqual(hostsOf(result), { a: ['a.lab'] });
  assert.deepEqual(codesOf(result), ['a HostReserved']);
});

test('plan() refuses names that every cluster has inside, also by a wildcard, except in the file', () => {
  const inside = [
    'kubernetes',
    'kubernetes.default',
    'kubernetes.default.svc',
    'kubernetes.default.svc.cluster.local',
    'kubernetes.default.svc.other.domain',
    '*.default',
    '*.default.svc',
    '*.default.svc.cluster.local',
  ];
  const others = [
    'kubernetes.example.com',
    'kubernetes.default.example.com',
    '*.svc',
    'default.svc',
    'a.default.svc',
  ];
  const hosts = [...inside, ...others];
  const objects = [
    kamaji('n', 'a', 1, hosts),
    service('n', 'web', { kind: 'apps-https', hosts: inside }),
    service('n', 'plain', { kind: 'apps-http', hosts: inside }),
  ];
  const result = plan(objects);
  assert.deepEqual(hostsOf(result), { 'n.a': others, plain: [], web: [] });
  assert.deepEqual(new Set(result.findings.map(({ code }) => code)), new Set(['HostInvalid']));
  assert.equal(result.findings.length, 3 * inside.length);
  assert.equal(
    result.findings[0].text,
    "every cluster has the name 'kubernetes' inside, so it cannot say which of them is meant",
  );
  const ofFile = plan([sampleCluster('f', { routes: [sampleRoute({ hosts: inside })] })]);
  assert.deepEqual(hostsOf(ofFile), { f: inside });
  assert.deepEqual(ofFile.findings, []);
});

test('plan() refuses hosts outside the domains of their source', () => {
  const domains = new Map([['kamaji', ['lab.example', '*.apps.example']]]);
  const hosts = ['a.lab.example', 'b.apps.example', 'c.d.apps.example', 'evil-lab.example', '*.apps.example'];
  const result = plan(
    [kamaji('n', 'a', 1, hosts), sampleCluster('f', { routes: [sampleRoute({ hosts: ['f.org'] })] })],
    {
      domains,
    },
  );
  assert.deepEqual(hostsOf(result), {
    f: ['f.org'],
    'n.a': ['a.lab.example', 'b.apps.example', '*.apps.example'],
  });
  assert.deepEqual(codesOf(result), ['n.a HostOutsideDomains', 'n.a HostOutsideDomains']);
});

test('plan() lets a Service join a cluster of its own namespace, and no other', () => {
  const tenant = kamaji('team-a', 'prod', 50, ['api.prod.lab']);
  const file = sampleCluster('shared', { routes: [sampleRoute({ hosts: ['shared.lab'] })] });
  const joins = plan([
    service('team-a', 'team-a.prod', { kind: 'oauth', hosts: ['oauth.prod.lab'] }),
    tenant,
  ]);
  assert.deepEqual(hostsOf(joins), { 'team-a.prod': ['api.prod.lab', 'oauth.prod.lab'] });
  for (const [name, namespace] of [
    ['team-a.prod', 'team-b'],
    ['shared', 'team-b'],
    // Nobody has it yet, and its name says whose it would be.
    ['team-c.next', 'team-b'],
  ]) {
    const result = plan([
      tenant,
      file,
      service(namespace, name, { kind: 'oauth', hosts: ['evil.lab'] }, 1000),
    ]);
    assert.deepEqual(codesOf(result), [`${name} NameClaimed`], name);
    assert.ok(!JSON.stringify(hostsOf(result)).includes('evil'), name);
  }
  const twice = plan([tenant, service('team-a', 'team-a.prod', { kind: 'api', hosts: ['x.lab'] })]);
  assert.deepEqual(codesOf(twice), ['team-a.prod NameClaimed']);
  assert.deepEqual(hostsOf(twice), { 'team-a.prod': ['api.prod.lab'] });
});

/** A cluster without namespace, whose Services are in one, as Kubermatic has them. */
const seeded = (name: string, age: number, hosts: readonly string[]) => {
  const { origin, ...rest } = kamaji('', name, age, hosts);
  const service = { namespace: `cluster-${name}`, name: 'apiserver', port: 443 };
  return {
    ...rest,
    name,
    origin,
    routes: [{ ...rest.routes[0], service }],
    controlPlane: { isPaused: false, namespace: `cluster-${name}` },
  };
};
const proxied = (cluster: string, age: number, route: Parameters<typeof sampleRoute>[0], port = 443) => {
  const claim = service(`cluster-${cluster}`, cluster, route, age);
  const of = { namespace: `cluster-${cluster}`, name: 'apiserver', port };
  return {
    ...claim,
    origin: { ...claim.origin, source: 'kamaji' },
    routes: [{ ...claim.routes[0], service: of }],
  };
};

test('plan() lets Services of the namespace of a control plane join it, also if they are older', () => {
  for (const age of [1, 1000]) {
    const joins = proxied('abc', age, { kind: 'vpn', hosts: ['vpn.lab'] });
    for (const claims of [
      [seeded('abc', 50, ['abc.lab']), joins],
      [joins, seeded('abc', 50, ['abc.lab'])],
    ]) {
      const result = plan(claims);
      assert.deepEqual(hostsOf(result), { abc: ['abc.lab', 'vpn.lab'] });
      assert.deepEqual(codesOf(result), []);
      assert.equal(plan(claims).clusters[0], result.clusters[0], 'the same object again');
    }
    const thief = { ...joins, origin: service('cluster-x', 'abc', { kind: 'vpn' }, age).origin };
    assert.deepEqual(codesOf(plan([seeded('abc', 50, ['abc.lab']), thief])), ['abc NameClaimed']);
  }
});

test('plan() adds names to a route where the same source leads them to the same port', () => {
  const owner = seeded('abc', 50, ['abc.lab']);
  const route = { kind: 'api', hosts: ['abc.lab', 'also.lab'], connect: ['a.svc'] };
  const result = plan([owner, proxied('abc', 10, route)]);
  assert.deepEqual(codesOf(result), []);
  assert.deepEqual(result.clusters[0].routes, [
    { ...owner.routes[0], hosts: ['abc.lab', 'also.lab'], connect: ['a.svc'] },
  ]);
  assert.deepEqual(codesOf(plan([owner, proxied('abc', 10, route, 444)])), ['abc NameClaimed']);
  const other = { ...proxied('abc', 10, route), origin: service('cluster-abc', 'abc', route, 10).origin };
  assert.deepEqual(codesOf(plan([owner, other])), ['abc NameClaimed']);
});

test('plan() gives a name to the oldest Service, and tells the other', () => {
  const claims = [
    seeded('abc', 900, ['abc.lab']),
    seeded('xyz', 900, ['xyz.lab']),
    proxied('xyz', 20, { kind: 'vpn', hosts: ['x.lab'], connect: ['x.svc'] }),
    proxied('abc', 10, { kind: 'vpn', hosts: ['x.lab'], connect: ['x.svc'] }),
  ];
  const result = plan(claims);
  assert.deepEqual(hostsOf(result), { abc: ['abc.lab'], xyz: ['xyz.lab', 'x.lab'] });
  assert.deepEqual(codesOf(result), ['abc HostClaimed', 'abc ConnectNameClaimed']);
  assert.deepEqual(
    new Set(result.findings.map(({ origin }) => `${origin?.object?.kind} ${origin?.object?.namespace}`)),
    new Set(['Service cluster-abc']),
  );
});

test('plan() lets Services of one namespace make a cluster together, and takes its name from all others', () => {
  const api = service('a', 'mine', { kind: 'api', hosts: ['api.lab'] }, 5);
  const web = service('a', 'mine', { kind: 'apps-https', hosts: ['web.lab'] });
  const thief = service('b', 'mine', { kind: 'oauth', hosts: ['oauth.lab'] }, 1);
  const result = plan([web, thief, api]);
  assert.deepEqual(hostsOf(result), { mine: ['api.lab', 'web.lab'] });
  assert.deepEqual(codesOf(result), ['mine NameClaimed']);
});

test('plan() takes from objects the backends that are forbidden, and from the file none', () => {
  const own = (host: string, port: number) => host === '192.0.2.10' && port === 6443;
  const options = { forbiddenBackend: (backend: Backend) => forbiddenBackend(backend, own) };
  const all = [
    '192.0.2.10:6443',
    '192.0.2.10:443',
    '127.0.0.1:1',
    '::1:1',
    '::ffff:127.0.0.1:1',
    '169.254.169.254:80',
    'fe80::1:1',
    '0.0.0.0:1',
    'metadata.internal:80',
    '10.0.0.1:6443',
    'fd00::1:6443',
  ];
  const route = sampleRoute({ backends: all });
  const { clusters, findings } = plan(
    [{ ...kamaji('n', 'a', 1, []), routes: [route] }, sampleCluster('f', { routes: [route] })],
    options,
  );
  const texts = clusters.map(({ routes }) => routes[0].pool.backends.map(({ text }) => text));
  assert.deepEqual(texts, [all, ['192.0.2.10:443', '10.0.0.1:6443', 'fd00::1:6443']]);
  assert.deepEqual(new Set(findings.map(({ code }) => code)), new Set(['BackendForbidden']));
});

test('plan() gives a claim that keeps everything back as the same object', () => {
  const claims = Array.from({ length: 100 }, (_, i) => kamaji('n', `c${i}`, i, [`c${i}.lab`]));
  const { clusters } = plan(claims);
  assert.deepEqual(new Set(clusters), new Set(claims));
  assert.ok(clusters.every(cluster => claims.includes(cluster)));
});

/** Clusters of the file and of objects, with few names, so that they often want the same. */
const anyClaims = fc
  .tuple(anyClusters, fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 4, maxLength: 4 }))
  .map(([clusters, ages]) =>
    clusters.map((cluster, i) =>
      ages[i] === 0 ? cluster : { ...cluster, origin: sampleOrigin('services', 'n', cluster.name, ages[i]) },
    ),
  );

test('plan() does not depend on the order of objects', () => {
  fc.assert(
    fc.property(
      anyClaims.chain(claims =>
        fc.tuple(fc.constant(claims), fc.shuffledSubarray(claims, { minLength: claims.length })),
      ),
      ([claims, shuffled]) => {
        const isOfFile = ({ origin }: Cluster) => origin.object === undefined;
        // The order within the file is the file's own.
        const order = [...claims.filter(isOfFile), ...shuffled.filter(claim => !isOfFile(claim))];
        assert.deepEqual(plan(order), plan(claims));
      },
    ),
  );
});

test('plan() loses nothing of the others when a cluster is taken away', () => {
  fc.assert(
    fc.property(anyClaims, fc.nat(3), (claims, index) => {
      const gone = claims[index]?.name;
      const before = hostsOf(plan(claims));
      const after = hostsOf(plan(claims.filter(({ name }) => name !== gone)));
      // HostUnderWildcard: an exact host of the file beside a wildcard that others may now get is the one exception.
      for (const [name, hosts] of Object.entries(before)) {
        if (name === gone) continue;
        const kept = new Set(after[name]);
        const lost = hosts.filter(host => !kept.has(host));
        assert.ok(
          lost.every(host =>
            Object.values(after)
              .flat()
              .some(other => other === host || covers(other, host)),
          ),
          `${name}: ${lost}`,
        );
      }
    }),
  );
});

function covers(wildcard: string, host: string): boolean {
  return wildcardOf(host) === wildcard;
}

test('plan() limits the findings of one object, however many hosts it claims in vain', () => {
  const hosts = Array.from({ length: 1000 }, (_, i) => `h${i}.elsewhere`);
  const claim = sampleCluster('team.web', {
    origin: sampleOrigin('services', 'team', 'web'),
    routes: [sampleRoute({ hosts })],
  });
  const { findings, clusters } = plan([claim], { domains: new Map([['services', ['team.lab']]]) });
  assert.equal(findings.length, 20);
  assert.deepEqual(clusters[0].routes[0].hosts, []);
});
