import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Verdicts } from '../shared/verdicts.ts';
import { reasonIndex } from './record-end.ts';
import { TunnelLinks } from './tunnel-links.ts';

const [OUTER, INNER] = [7, 9];

function given() {
  const verdicts = new Verdicts(Verdicts.memory(16));
  verdicts.begin(OUTER);
  const generation = verdicts.generation(OUTER);
  const links = new TunnelLinks();
  links.add({ handle: OUTER, generation }, INNER);
  return { verdicts, links };
}

test('TunnelLinks.reset() of the inner connection leaves a verdict on the outer', () => {
  const { verdicts, links } = given();
  assert.equal(links.reset(verdicts, INNER, 'backend-reset'), undefined);
  assert.equal(verdicts.reason(OUTER), reasonIndex['backend-reset']);
  assert.ok(verdicts.isBroken(OUTER));
});

test('TunnelLinks.reset() of the outer connection returns the inner', () => {
  const { verdicts, links } = given();
  assert.equal(links.reset(verdicts, OUTER, 'client-reset'), INNER);
  assert.equal(verdicts.reason(OUTER), -1);
});

test('TunnelLinks.reset() leaves no verdict if the outer handle belongs to another connection by now', () => {
  const { verdicts, links } = given();
  verdicts.end(OUTER);
  links.reset(verdicts, INNER, 'backend-reset');
  assert.equal(verdicts.reason(OUTER), -1);
});

for (const [what, handle] of [
  ['outer', OUTER],
  ['inner', INNER],
] as const) {
  test(`TunnelLinks.delete() of the ${what} connection forgets both`, () => {
    const { verdicts, links } = given();
    links.delete(handle);
    assert.equal(links.reset(verdicts, OUTER, 'client-reset'), undefined);
    links.reset(verdicts, INNER, 'backend-reset');
    assert.equal(verdicts.reason(OUTER), -1);
  });
}

test('TunnelLinks.delete() of an inner connection keeps a later one from the same outer handle', () => {
  const { verdicts, links } = given();
  links.add({ handle: OUTER, generation: verdicts.generation(OUTER) }, INNER + 1);
  links.delete(INNER);
  assert.equal(links.reset(verdicts, OUTER, 'client-reset'), INNER + 1);
});
