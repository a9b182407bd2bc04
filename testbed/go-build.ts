// Programs of our own in Go, built once through the cache.

import { fileURLToPath } from 'node:url';
import { built } from './cache.ts';
import { run } from './run.ts';

/** A first build compiles the standard library too. */
const BUILD_TIMEOUT_MS = 15 * 60_000;

/** Builds the module `testbed/<name>` unless it is there, and gives the path of its program. */
export async function goBuild(name: 'go-client' | 'go-peer'): Promise<string> {
  const source = new URL(`./${name}/`, import.meta.url);
  const directory = await built(name, {
    pins: [source, await goVersion()],
    async build(directory, progress) {
      progress('go build');
      const args = ['build', '-trimpath', '-buildvcs=false', '-o', `${directory}/${name}`, '.'];
      const env = { CGO_ENABLED: '0', GOWORK: 'off' };
      const options = { cwd: fileURLToPath(source), env, timeoutMs: BUILD_TIMEOUT_MS };
      const { code, stderr } = await run('go', args, options);
      if (code !== 0) throw new Error(`go build ended with code ${code}\n${stderr}`);
    },
  });
  return `${directory}/${name}`;
}

async function goVersion(): Promise<string> {
  return (await run('go', ['version'])).stdout.toString();
}
