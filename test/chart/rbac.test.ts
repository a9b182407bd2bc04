// The chart grants what `causeway render rbac` prints, for any combination of sources and outputs: it says in a template what
// src/outputs/rbac-for.ts says in code.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readConfig } from '../../src/config/read-config.ts';
import { type RbacObject, rbacFor } from '../../src/outputs/rbac-for.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { configOf, NAMESPACE, RELEASE, type Rendered, renderChart } from './render-chart.ts';

const skip = missingGoPrograms('helm');
const SEED = 20_261;
const SAMPLES = 40;

const namespaces = fc.option(fc.subarray(['a', 'b', NAMESPACE], { minLength: 1 }), { nil: undefined });
const watched = fc.record({
  namespaces,
  via: fc.option(fc.constantFrom('endpoints', 'clusterIP'), { nil: undefined }),
  // Another API server.
  kubeconfig: fc.oneof(
    { weight: 5, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constant('/etc/causeway-secrets/other/kubeconfig') },
  ),
});
const sourceKinds = ['kamaji', 'steward', 'hypershift', 'kubermatic', 'clusterApi', 'k0smotron'] as const;
const source = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(fc.constantFrom(...sourceKinds), watched, fc.boolean()) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('services' as const), watched, fc.boolean()) },
  { weight: 1, arbitrary: fc.constant(['directory', { path: '/clusters' }, false] as const) },
);
const output = fc.constantFrom(
  { ingress: {} },
  { ingress: { flavor: 'fromCluster' } },
  { ingressRouteTCP: {} },
  { tlsRoute: { gateway: { name: 'shared' } } },
  { transportServer: {} },
  { dnsEndpoint: { zone: 'a.example.com' } },
  { dnsEndpoint: { zone: 'a.example.com', targets: ['192.0.2.1'] } },
  { dnsServer: { on: ':53', addresses: ['192.0.2.1'], targets: 'nodes' } },
  { tenantAgent: { gateway: 'gw.example.com:443' } },
  { tenantEndpoints: {} },
);
const file = fc.record(
  {
    sources: fc.array(source, { minLength: 1, maxLength: 3 }).map(all => all.map(toSource)),
    outputs: fc.array(output, { maxLength: 3 }),
    lease: fc.constantFrom({ name: 'l', namespace: 'elsewhere' }),
    statusAnnotation: fc.boolean(),
  },
  { requiredKeys: ['sources', 'outputs'] },
);

/** `special` is what only some kinds have, and what changes their rights. */
function toSource([kind, options, special]: readonly [string, object, boolean]): object {
  const tenants = kind === 'kamaji' || kind === 'steward';
  return {
    [kind]: {
      ...options,
      ...(tenants && special && { fix: true }),
      ...(kind === 'kubermatic' && special && { zone: 'z.example.com' }),
      ...(kind === 'services' && { domains: ['x.example.com'] }),
    },
  };
}

/** One line for each thing that may be done, and for each binding. */
function grantsOf(objects: readonly (RbacObject | Rendered)[]): string[] {
  return objects
    .filter(({ kind }) => /^(Cluster)?Role(Binding)?$/.test(kind))
    .flatMap(({ kind, metadata, rules = [], roleRef }) => [
      `${kind} ${metadata.namespace ?? '*'}/${metadata.name} ${roleRef ? `${roleRef.kind}/${roleRef.name}` : ''}`,
      ...rules.flatMap(({ apiGroups, resources, resourceNames = [], verbs }: Rule) =>
        verbs.map(
          verb =>
            `${metadata.namespace ?? '*'} ${verb} ${[...apiGroups, ...resources, ...resourceNames].join('/')}`,
        ),
      ),
    ])
    .toSorted();
}

type Rule = NonNullable<RbacObject['rules']>[number];

const fixed: readonly object[] = [
  {},
  ...[...sourceKinds, 'services'].flatMap(kind => {
    const sources = [toSource([kind, {}, false])];
    const dns = { zone: 'a.example.com' };
    return [
      { sources },
      { sources, outputs: [{ tenantAgent: { gateway: 'gw.example.com:443' } }] },
      { sources, outputs: [{ dnsEndpoint: dns }] },
      { sources, outputs: [{ dnsServer: { on: ':53', addresses: ['192.0.2.1'], targets: 'nodes' } }] },
      { sources, outputs: [{ dnsServer: { on: ':53', addresses: ['192.0.2.1'] } }] },
      { sources: [toSource([kind, { namespaces: ['a'] }, true])], statusAnnotation: false },
    ];
  }),
  { outputs: [{ ingress: {} }] },
  { outputs: [{ tenantAgent: { gateway: 'gw.example.com:443' } }] },
  { outputs: [{ dnsEndpoint: { zone: 'a.example.com', targets: ['192.0.2.1'] } }] },
  { sources: [{ directory: { path: '/clusters' } }], outputs: [{ ingress: {} }] },
  { sources: [{ kamaji: { kubeconfig: '/k' } }], outputs: [{ ingress: {} }] },
  {
    sources: [{ kamaji: {} }, { services: { domains: ['x.example.com'], namespaces: ['a'] } }],
    statusAnnotation: true,
  },
];

test('the chart grants what render rbac prints', { skip, timeout: 300_000 }, async () => {
  const waiting = [...fixed, ...fc.sample(fc.noBias(file), { seed: SEED, numRuns: SAMPLES })].values();
  let granted = 0;
  async function work(): Promise<void> {
    for (const config of waiting) granted += await compare(config);
  }
  await Promise.all([work(), work()]);
  assert.ok(granted > SAMPLES / 2, `only ${granted} grant anything`);
});

async function compare(config: object): Promise<number> {
  const given = JSON.stringify(config);
  const objects = await renderChart({ config });
  const read = readConfig(configOf(objects), 'causeway.yaml');
  assert.ok(read.ok, given);
  const usesCluster = read.config.sources.some(
    ({ kind, options }) => kind !== 'directory' && options.kubeconfig === undefined,
  );
  const hasOthers = read.config.sources.some(
    ({ kind, options }) => kind !== 'directory' && options.kubeconfig !== undefined,
  );
  const [own] = rbacFor(read.config);
  // Of several API servers, that of the Pod comes first.
  const expected = hasOthers && !usesCluster ? [] : (own?.objects ?? []);
  assert.deepEqual(grantsOf(objects), grantsOf(expected), given);
  const bindings = objects.filter(({ kind }) => kind.endsWith('Binding'));
  for (const { subjects } of bindings)
    assert.deepEqual(subjects, [{ kind: 'ServiceAccount', name: RELEASE, namespace: NAMESPACE }], given);
  const { spec } = objects.find(({ kind }) => kind === 'Deployment')?.spec.template ?? {};
  assert.equal(spec.automountServiceAccountToken, expected.length > 0, given);
  return Number(expected.length > 0);
}

test('rbac.create: false grants nothing', { skip }, async () => {
  const objects = await renderChart({ rbac: { create: false }, config: { sources: [{ kamaji: {} }] } });
  assert.deepEqual(grantsOf(objects), []);
});
