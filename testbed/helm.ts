// Helm in a test: it prints what it would install, or installs it into a test's API server.

import { goBuild } from './go-build.ts';
import { type RunResult, run } from './run.ts';
import { tempDir } from './temp-dir.ts';

/** What Helm printed and how it ended. `values` come last, as a file. */
export async function helm(args: readonly string[], values?: object): Promise<RunResult> {
  const command = await goBuild('helm');
  await using dir = await tempDir();
  // It keeps repositories and plugins there, and there are none.
  const env = {
    HELM_CACHE_HOME: dir.file('cache'),
    HELM_CONFIG_HOME: dir.file('config'),
    HELM_DATA_HOME: dir.file('data'),
    // It would use the machine's HTTP proxy for every address but 127.0.0.1.
    NO_PROXY: '*',
    no_proxy: '*',
  };
  if (values === undefined) return run(command, args, { env });
  // JSON is YAML.
  return run(command, [...args, '--values', '-'], { env, input: JSON.stringify(values) });
}
