// kwok in a test: Nodes that are Ready and Pods that run, without kubelets and containers. `kwok-stages.yaml` says what
// becomes of them.

import { fileURLToPath } from 'node:url';
import { freePort } from './free-port.ts';
import { goBuild } from './go-build.ts';
import { type Program, startProgram } from './program.ts';
import { tempDir } from './temp-dir.ts';

const STAGES = fileURLToPath(new URL('./kwok-stages.yaml', import.meta.url));

export interface KwokOptions {
  /** A kubeconfig file of an administrator. */
  readonly kubeconfig: string;
}

/** Starts kwok for all Nodes, and resolves when it watches them. Nodes need an address (`api.addNode()`). */
export async function startKwok({ kubeconfig }: KwokOptions): Promise<Program> {
  await using stack = new AsyncDisposableStack();
  // It keeps its files in the home directory.
  const home = stack.use(await tempDir());
  const program = stack.use(
    await startProgram({
      command: await goBuild('kwok'),
      args: [
        `--kubeconfig=${kubeconfig}`,
        '--manage-all-nodes=true',
        `--server-address=127.0.0.1:${await freePort()}`,
        `--config=${STAGES}`,
      ],
      env: { HOME: home.path },
      ready: { log: /Watch all nodes/ },
      stopSignal: 'SIGKILL',
    }),
  );
  const owned = stack.move();
  return { ...program, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
