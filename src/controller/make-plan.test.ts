import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Finding } from '../cluster/finding.ts';
import { readConfig } from '../config/read-config.ts';
import { makePlan } from './make-plan.ts';

test('makePlan() has what a source and an output both find once', () => {
  const fault: Finding = {
    cluster: 'a',
    severity: 'warning',
    code: 'TenantUnreachable',
    text: 'x',
    fix: 'y',
  };
  const observed = { claims: [], findings: [fault], sources: [] };
  const read = readConfig('listen: [":443"]', 'causeway.yaml');
  assert.ok(read.ok);
  const found: readonly Finding[] = [
    { ...fault, severity: 'error' },
    { ...fault, cluster: 'b' },
    { ...fault, text: 'z' },
  ];
  const { findings } = makePlan(read.config, observed, [], found);
  assert.deepEqual(findings, [fault, found[1], found[2]]);
});
