import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routeRefusal } from './route-refusal.ts';

const GATEWAY = { name: 'shared', namespace: 'infra' };

function refusal(status: unknown, parentRefs: unknown = [GATEWAY]) {
  const route = {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'TLSRoute',
    metadata: { name: 'r', namespace: 'tenants', generation: 2 },
    spec: { parentRefs },
    status,
  };
  return routeRefusal(route)?.text;
}

const condition = (type: string, status: string, more: object = {}) => ({
  type,
  status,
  reason: 'Why',
  message: 'some words',
  ...more,
});
const said = (parentRef: object, ...conditions: readonly unknown[]) => ({
  parents: [{ parentRef, conditions }],
});

test('routeRefusal() has nothing to say where the Gateway accepts, or has not judged it', () => {
  assert.equal(refusal(undefined), undefined);
  assert.equal(refusal({ parents: [] }), undefined);
  assert.equal(refusal(said(GATEWAY)), undefined);
  const good = said(GATEWAY, condition('Accepted', 'True'), condition('ResolvedRefs', 'True'));
  assert.equal(refusal(good), undefined);
  assert.equal(refusal(said(GATEWAY, condition('Accepted', 'Unknown'))), undefined);
});

test('routeRefusal() says so where a Gateway says nothing for a minute after our last change', () => {
  const fields = (manager: string, time: string) => ({ manager, operation: 'Apply', time });
  const route = (status: unknown, ...managedFields: readonly object[]) => ({
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'TLSRoute',
    metadata: { name: 'r', namespace: 'tenants', creationTimestamp: '2026-01-01T00:00:00Z', managedFields },
    spec: { parentRefs: [GATEWAY] },
    status,
  });
  const from = (...args: Parameters<typeof route>) => {
    const said = routeRefusal(route(...args));
    return said?.from === undefined ? undefined : new Date(said.from).toISOString();
  };
  assert.equal(from(undefined), '2026-01-01T00:01:00.000Z');
  assert.equal(from({ parents: [{ parentRef: { name: 'former' } }] }), '2026-01-01T00:01:00.000Z');
  const changed = [fields('other', '2026-03-03T00:00:00Z'), fields('causeway', '2026-02-02T00:00:00Z')];
  assert.equal(from(undefined, ...changed), '2026-02-02T00:01:00.000Z');
  assert.match(routeRefusal(route({}))?.text ?? '', /^Gateway 'infra\/shared' says nothing about it/);
  assert.equal(from(said(GATEWAY)), undefined);
});

test('routeRefusal() says which Gateway does not accept, or cannot use the Service, and why', () => {
  assert.equal(
    refusal(said(GATEWAY, condition('Accepted', 'False'))),
    "Gateway 'infra/shared' does not accept it: Why: some words",
  );
  assert.equal(
    refusal(said(GATEWAY, condition('Accepted', 'True'), condition('ResolvedRefs', 'False'))),
    "Gateway 'infra/shared' cannot use its backends: Why: some words",
  );
  assert.equal(
    refusal(said({ name: 'own' }, condition('Accepted', 'False')), [{ name: 'own' }]),
    "Gateway 'tenants/own' does not accept it: Why: some words",
  );
});

test('routeRefusal() ignores what was said about another Gateway, or before the last change', () => {
  assert.equal(refusal(said({ name: 'former' }, condition('Accepted', 'False'))), undefined);
  const old = condition('Accepted', 'False', { observedGeneration: 1 });
  assert.equal(refusal(said(GATEWAY, old)), undefined);
  const now = condition('Accepted', 'False', { observedGeneration: 2 });
  assert.notEqual(refusal(said(GATEWAY, now)), undefined);
});

test('routeRefusal() bears any status', () => {
  for (const odd of [null, 7, 'x', [], {}, { parents: {} }, { parents: [7, null, [], {}] }]) {
    assert.equal(refusal(odd), undefined);
    assert.equal(refusal(said(GATEWAY, odd)), undefined);
    assert.equal(refusal(said(GATEWAY, condition('Accepted', 'False')), odd), undefined);
  }
  const wordless = condition('Accepted', 'False', { reason: 7, message: {} });
  assert.equal(refusal(said(GATEWAY, wordless)), "Gateway 'infra/shared' does not accept it: ");
  const long = condition('Accepted', 'False', { message: 'x'.repeat(32_768) });
  assert.ok((refusal(said(GATEWAY, long)) ?? '').length < 600);
});
