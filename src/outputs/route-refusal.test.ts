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

test('routeRefusal() has nothing to say while the Gateway has said nothing, or accepts', () => {
  assert.equal(refusal(undefined), undefined);
  assert.equal(refusal({ parents: [] }), undefined);
  assert.equal(refusal(said(GATEWAY)), undefined);
  const good = said(GATEWAY, condition('Accepted', 'True'), condition('ResolvedRefs', 'True'));
  assert.equal(refusal(good), undefined);
  assert.equal(refusal(said(GATEWAY, condition('Accepted', 'Unknown'))), undefined);
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
