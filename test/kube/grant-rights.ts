// Gives our program the rights in a management cluster that its file needs, and no more: what `render rbac` prints.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { kubeconfig } from '../../testbed/kubectl.ts';
import { run } from '../../testbed/run.ts';
import type { ApiServer } from '../../testbed/start-api-server.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

/** Creates the ServiceAccount `causeway` in `causeway-system`, where the lease is. */
export async function addAccount(management: ApiServer): Promise<void> {
  await management.kubectl('create', 'namespace', 'causeway-system');
  await management.kubectl('create', 'serviceaccount', 'causeway', '-n', 'causeway-system');
}

export async function grantRights(management: ApiServer, config: string): Promise<void> {
  await using dir = await tempDir();
  await writeFile(dir.file('causeway.yaml'), config);
  const { code, stdout, stderr } = await run(causewayBin, [
    'render',
    'rbac',
    '-c',
    dir.file('causeway.yaml'),
  ]);
  assert.equal(code, 0, stderr);
  await writeFile(dir.file('rbac.yaml'), stdout);
  await management.kubectl('apply', '-f', dir.file('rbac.yaml'));
}

/** A new token of that ServiceAccount. */
export async function accountToken(management: ApiServer): Promise<string> {
  return (await management.kubectl('create', 'token', 'causeway', '-n', 'causeway-system')).trim();
}

/** Grants the rights, and writes a kubeconfig with a new token of that ServiceAccount. */
export async function grantAccess(management: ApiServer, config: string, file: string): Promise<void> {
  await grantRights(management, config);
  const { url: server, caFile } = management;
  const user = { token: await accountToken(management) };
  await writeFile(file, await kubeconfig({ server, caFile, user }));
}
