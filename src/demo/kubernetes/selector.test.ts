import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from './kube-object.ts';
import { parseFieldSelector, parseLabelSelector } from './selector.ts';

const pod: KubeObject = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'a',
    namespace: 'default',
    uid: '1',
    creationTimestamp: '',
    labels: { app: 'hello', tier: '' },
  },
  spec: { nodeName: 'node-0' },
  status: { phase: 'Running' },
};

test('parseLabelSelector() selects by equality, inequality and presence', () => {
  const cases: [string | null, boolean][] = [
    [null, true],
    ['', true],
    ['app=hello', true],
    ['app==hello', true],
    ['app=other', false],
    ['app!=other', true],
    ['app!=hello', false],
    ['missing!=x', true],
    ['app', true],
    ['tier', true],
    ['missing', false],
    ['!missing', true],
    ['!app', false],
    ['app=hello,missing', false],
    ['app=hello, tier', true],
  ];
  for (const [text, selected] of cases) {
    const parsed = parseLabelSelector(text);
    assert.ok('selects' in parsed, String(text));
    assert.equal(parsed.selects(pod), selected, String(text));
  }
});

test('parseFieldSelector() follows the path', () => {
  const cases: [string, boolean][] = [
    ['spec.nodeName=node-0,status.phase!=Succeeded,status.phase!=Failed', true],
    ['metadata.name=a', true],
    ['metadata.name=b', false],
    ['spec.missing.deeper=x', false],
    ['spec.missing=', true],
  ];
  for (const [text, selected] of cases) {
    const parsed = parseFieldSelector(text);
    assert.ok('selects' in parsed, text);
    assert.equal(parsed.selects(pod), selected, text);
  }
});

test('parseLabelSelector() returns the part that it does not support', () => {
  for (const part of ['app in (a)', '!app=x', '=x'])
    assert.deepEqual(parseLabelSelector(`tier,${part}`), { unclear: part });
});
