// The demo's clusters are healthy: doctor has nothing to say about them, from outside and with their kubeconfigs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { startProgram } from '../../testbed/program.ts';
import { run } from '../../testbed/run.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

test("causeway doctor finds nothing wrong with the demo's clusters", async () => {
  await using dir = await tempDir();
  await using _demo = await startProgram({
    command: causewayBin,
    args: ['demo', '--port', String(await freePort())],
    cwd: dir.path,
    ready: { log: /Press Ctrl-C to end/ },
    stopSignal: 'SIGINT',
  });
  const doctor = async (...args: readonly string[]) => {
    const file = ['-c', 'demo-out/causeway.yaml', '--json'];
    const { code, stdout, stderr } = await run(causewayBin, ['doctor', ...file, ...args], { cwd: dir.path });
    assert.equal(code, 0, stderr || stdout.toString());
    const { ok, checks } = JSON.parse(stdout.toString());
    assert.equal(ok, true);
    return (checks as { cluster: string | null; status: string; step: string; text: string }[]).map(check => {
      assert.equal(check.status, 'ok', check.text);
      return `${check.cluster} ${check.step}`;
    });
  };
  const seen = new Set(await doctor());
  for (const cluster of ['hub', 'managed1', 'managed2'])
    for (const step of ['route', 'tls', 'api', 'konnectivity', 'tenant', 'clocks'])
      assert.ok(seen.has(`${cluster} ${step}`), `${cluster} ${step}`);
  const inside = await doctor('hub', '--tenant-kubeconfig', 'demo-out/hub.kubeconfig');
  assert.equal(inside.filter(step => step === 'hub api').length, 2);
});
