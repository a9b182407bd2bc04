import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { goBuild, kubebuilderAsset, missingGoPrograms } from './go-build.ts';
import { tempDir } from './temp-dir.ts';

test('goBuild() takes only Kubernetes programs from $KUBEBUILDER_ASSETS', async () => {
  await using dir = await tempDir();
  await writeFile(dir.file('kubectl'), '');
  await chmod(dir.file('kubectl'), 0o755);
  await writeFile(dir.file('etcd'), 'not executable');
  await mkdir(dir.file('traefik'));
  assert.equal(kubebuilderAsset('kubectl', dir.path), dir.file('kubectl'));
  for (const name of ['etcd', 'kube-apiserver', 'traefik'])
    assert.equal(kubebuilderAsset(name, dir.path), undefined, name);
  assert.equal(kubebuilderAsset('kubectl', ''), undefined);

  const before = process.env.KUBEBUILDER_ASSETS;
  process.env.KUBEBUILDER_ASSETS = dir.path;
  try {
    assert.equal(await goBuild('kubectl'), dir.file('kubectl'));
    assert.equal(missingGoPrograms('kubectl'), false);
  } finally {
    if (before === undefined) delete process.env.KUBEBUILDER_ASSETS;
    else process.env.KUBEBUILDER_ASSETS = before;
  }
});
