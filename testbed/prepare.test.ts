import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { neededBuilds } from './prepare.ts';
import { tempDir } from './temp-dir.ts';

test('neededBuilds() follows imports to the builders they call', async () => {
  await using dir = await tempDir();
  await writeFile(dir.file('start.ts'), `await goBuild('etcd');\nawait goBuild('kubectl');\n`);
  await writeFile(
    dir.file('between.ts'),
    `export { start } from './start.ts';\nimport type { X } from './x.ts';\n`,
  );
  await writeFile(dir.file('a.test.ts'), `import {\n  start,\n  type Y,\n} from './between.ts';\n`);
  await writeFile(dir.file('other.ts'), `await haproxyBuild();\n`);
  await writeFile(
    dir.file('b.test.ts'),
    `import { other } from './other.ts';\ntold("goBuild('traefik')");\n`,
  );
  assert.deepEqual(neededBuilds([dir.file('a.test.ts')]), ["goBuild('etcd')", "goBuild('kubectl')"]);
  assert.deepEqual(neededBuilds([dir.file('b.test.ts')]), ['haproxyBuild()']);
});

test('neededBuilds() returns nothing for a test that builds nothing', () => {
  assert.deepEqual(neededBuilds(['test/docs.test.ts', 'testbed/prepare.test.ts']), []);
});

test('neededBuilds() finds the builds behind the starters of the test bed', () => {
  const found = neededBuilds(['testbed/kube.test.ts', 'testbed/routers.test.ts', 'testbed/starters.test.ts']);
  for (const call of ["goBuild('go-client')", 'javaBuild()', "goBuild('kube-apiserver')", 'haproxyBuild()'])
    assert.ok(found.includes(call), call);
});
