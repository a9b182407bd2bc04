// kube-scheduler in a test: gives Pods their Nodes.

import { goBuild } from './go-build.ts';
import { type Program, startProgram } from './program.ts';

export interface SchedulerOptions {
  /** A kubeconfig file of an administrator. */
  readonly kubeconfig: string;
}

/** Starts kube-scheduler. Pods that are there already are scheduled too. */
export async function startScheduler({ kubeconfig }: SchedulerOptions): Promise<Program> {
  return startProgram({
    command: await goBuild('kube-scheduler'),
    // No HTTP server.
    args: [`--kubeconfig=${kubeconfig}`, '--leader-elect=false', '--secure-port=0'],
    ready: { log: /Starting Kubernetes Scheduler/ },
    stopSignal: 'SIGKILL',
  });
}
