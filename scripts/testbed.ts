// `npm run testbed`: installs and builds everything that the tests use, so that a later `npm test` starts at once.
// The first time it takes half an hour on two cores.

import { cacheRoot } from '../testbed/cache.ts';
import { installPackages, missingPackages } from '../testbed/packages.ts';
import { prepare } from '../testbed/prepare.ts';

try {
  const packages = missingPackages();
  if (packages.length > 0) process.stdout.write(`Debian packages: installing ${packages.join(' ')}\n`);
  installPackages(packages);
  await prepare();
  process.stdout.write(`The test bed is in ${cacheRoot()}\n`);
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 1;
}
