// The example files that people copy: each is valid and gives no warning.

import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { formatMistake } from './read-config.ts';
import { readConfigFile } from './read-config-file.ts';

const directory = fileURLToPath(new URL('../../examples/', import.meta.url));
const files = (await readdir(directory)).filter(name => name.endsWith('.yaml')).toSorted();

test('examples/ has the files that the documents name', () => {
  for (const name of ['agents.yaml', 'home-lab.yaml', 'linuxera-lab.yaml', 'one-port.yaml'])
    assert.ok(files.includes(name), name);
});

for (const name of files) {
  test(`examples/${name} has no mistakes and no warnings`, async () => {
    const result = await readConfigFile(directory + name);
    const reported = result.ok ? result.warnings : result.mistakes;
    assert.deepEqual(
      reported.map(mistake => formatMistake(name, mistake)),
      [],
    );
  });
}

test("examples/linuxera-lab.yaml uses the host names of the hub's DNS records", async () => {
  const result = await readConfigFile(`${directory}linuxera-lab.yaml`);
  assert.ok(result.ok);
  const hub = result.config.clusters[0];
  assert.deepEqual(
    hub.routes.map(route => [route.kind, route.hosts[0], route.pool.backends.map(backend => backend.text)]),
    [
      ['api', 'api.hub-cluster.linuxera.lab', backends([20, 21, 22], 6443)],
      ['apps-https', '*.apps.hub-cluster.linuxera.lab', backends([23, 24, 25], 443)],
      ['apps-http', '*.apps.hub-cluster.linuxera.lab', backends([23, 24, 25], 80)],
    ],
  );
});

function backends(hosts: readonly number[], port: number): readonly string[] {
  return hosts.map(host => `192.168.125.${host}:${port}`);
}
