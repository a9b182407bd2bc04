import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tempDir } from '../../testbed/temp-dir.ts';
import type { ClusterCertificates } from './cluster-certificates.ts';
import { demoClusters } from './demo-clusters.ts';
import { DemoFolder } from './demo-folder.ts';
import { instructions } from './instructions.ts';

async function printed(surroundings: Partial<Parameters<typeof instructions>[1]>): Promise<string> {
  await using dir = await tempDir();
  using folder = DemoFolder.claim(dir.path, { pid: 1, isRunning: () => false });
  const tenants = demoClusters.map(cluster => ({
    cluster,
    certificates: {} as ClusterCertificates,
    agent: { host: cluster.agentAddress, port: 7443 },
  }));
  const demo = {
    gateway: { host: '127.0.0.1', port: 7443 },
    adminUrl: 'http://127.0.0.1:9440',
    tenants,
    folder,
  };
  return instructions(demo, { kubectl: true, proxied: false, paint: (_, text) => text, ...surroundings });
}

test('instructions() has kubectl lines only if kubectl is installed', async () => {
  assert.match(await printed({}), /^ +kubectl --kubeconfig demo-out\/hub\.kubeconfig get nodes$/m);
  const without = await printed({ kubectl: false });
  assert.doesNotMatch(without, /kubectl/);
  assert.match(without, /^ +curl /m);
});

test('instructions() shows the uplink of each cluster', async () => {
  const text = await printed({});
  assert.match(text, /^ +Agents +hub by proxy; managed1 by connect, signed; managed2 by tunnel, signed$/m);
  assert.match(text, /^ +kubectl --kubeconfig demo-out\/managed2-agent\.kubeconfig get nodes$/m);
});

test('instructions() prints commands without colours or trailing comments', async () => {
  const text = await printed({ paint: (code, text) => `\x1b[${code}m${text}\x1b[0m` });
  const commands = text.split('\n').filter(line => /^ {4}(curl|kubectl) /.test(line));
  assert.ok(commands.length > 10);
  for (const command of commands) {
    assert.ok(!command.includes('\x1b'), command);
    assert.doesNotMatch(command, / #/);
  }
});

test('instructions() makes curl bypass a proxy, except in the line that uses one', async () => {
  const lines = (await printed({ proxied: true })).split('\n').filter(line => /^ {4}curl /.test(line));
  for (const line of lines) assert.equal(line.includes("--noproxy '*'"), !line.includes(' -x http'), line);
});
