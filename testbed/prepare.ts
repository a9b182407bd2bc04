// Builds every program of the test bed that is built, one after the other, so that tests find them in the cache and
// need not count minutes of compiling into their time limits.

import { goBuild } from './go-build.ts';
import { javaBuild } from './java-client.ts';
import { missingPrograms } from './packages.ts';

/** What could not be built as its compiler is missing is left out: its tests skip and say so. */
export async function prepare(): Promise<void> {
  if (!missingPrograms('go')) {
    await goBuild('go-client');
    await goBuild('go-peer');
  }
  if (!missingPrograms('javac')) await javaBuild();
}
