// kube-proxy in a test: makes the ClusterIPs of Services work in a network namespace, as on a node.

import { freePort } from './free-port.ts';
import { goBuild } from './go-build.ts';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';

export interface KubeProxyOptions {
  /** The node. The rules apply to this namespace only. */
  readonly netns: Netns;
  /** A kubeconfig file whose server can be reached from there. */
  readonly kubeconfig: string;
  /** The Node object's name (`api.addNode()`). kube-proxy waits half a minute for one with an address. */
  readonly node: string;
  /** Default nftables. */
  readonly mode?: 'nftables' | 'iptables';
  readonly flags?: readonly string[];
}

/** Starts kube-proxy, and resolves when it has written its first rules. */
export async function startKubeProxy(options: KubeProxyOptions): Promise<Program> {
  const { netns, kubeconfig, node, mode = 'nftables', flags = [] } = options;
  return startProgram({
    command: await goBuild('kube-proxy'),
    args: [
      `--kubeconfig=${kubeconfig}`,
      `--proxy-mode=${mode}`,
      `--hostname-override=${node}`,
      `--bind-address=${netns.address}`,
      `--healthz-bind-address=127.0.0.1:${await freePort()}`,
      `--metrics-bind-address=127.0.0.1:${await freePort()}`,
      // A namespace cannot resize the machine's conntrack table.
      '--conntrack-max-per-core=0',
      '--v=2',
      ...flags,
    ],
    netns,
    ready: { log: /SyncProxyRules complete/ },
  });
}
