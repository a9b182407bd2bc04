// Installs a CustomResourceDefinition of testbed/crds into an API server, and waits until its objects can be listed.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { kubectl } from './kubectl.ts';
import type { ApiServer } from './start-api-server.ts';

const WAIT_MS = 60_000;

/** `file` as `kamaji-tenantcontrolplanes`, `resource` as `tenantcontrolplanes.kamaji.clastix.io`. */
export async function installDefinition(server: ApiServer, file: string, resource: string): Promise<void> {
  await server.kubectl('create', '-f', join(import.meta.dirname, 'crds', `${file}.yaml`));
  const admin = await server.kubeconfig();
  const deadline = performance.now() + WAIT_MS;
  // Not `kubectl wait`: it fails while the object has no status.
  while ((await kubectl(admin, ['get', resource, '-A'])).code !== 0) {
    if (performance.now() > deadline) throw new Error(`${resource} cannot be listed`);
    await sleep(100);
  }
}
