import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Report } from './check.ts';
import { checkRunning } from './check-config.ts';

test('checkRunning() names an edit that was refused, and changes that wait for a restart', () => {
  const codes = (config: Parameters<typeof running>[0]) => {
    const report = new Report(null);
    checkRunning(running(config), report);
    return report.checks.map(({ code }) => code);
  };
  assert.deepEqual(codes({ ok: false, error: 'causeway.yaml:1:1: …', restartNeeded: [] }), ['ConfigRefused']);
  assert.deepEqual(codes({ ok: true, error: null, restartNeeded: ['workers'] }), ['RestartNeeded']);
  assert.deepEqual(codes({ ok: true, error: null, restartNeeded: [] }), []);
});

function running(config: { ok: boolean; error: string | null; restartNeeded: readonly string[] }) {
  return { listeners: [], config, clusters: new Map() };
}
