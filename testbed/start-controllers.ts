// kube-controller-manager in a test: Deployments and DaemonSets get their Pods, Services their EndpointSlices, and what
// lost its owner is removed.

import { goBuild } from './go-build.ts';
import { type Program, startProgram } from './program.ts';
import { tempDir } from './temp-dir.ts';

export interface ControllersOptions {
  /** A kubeconfig file of an administrator. */
  readonly kubeconfig: string;
}

/** Starts all controllers that run by default, and resolves when the garbage collector knows all resources. */
export async function startControllers({ kubeconfig }: ControllersOptions): Promise<Program> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const program = stack.use(
    await startProgram({
      command: await goBuild('kube-controller-manager'),
      args: [
        `--kubeconfig=${kubeconfig}`,
        '--leader-elect=false',
        // It would make a directory in /usr/libexec.
        `--flex-volume-plugin-dir=${dir.path}`,
        // Nodes of kwok have no heartbeats, and stay as they are.
        '--node-monitor-grace-period=24h',
        // No HTTP server.
        '--secure-port=0',
      ],
      ready: { log: /Proceeding to collect garbage/ },
      stopSignal: 'SIGKILL',
    }),
  );
  const owned = stack.move();
  return { ...program, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
