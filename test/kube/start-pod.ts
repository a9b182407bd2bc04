// A pod's network and access to the API server: its own host, whose only route is through its node, with
// the environment and service account files of every pod. Programs in it use what client libraries call
// the in-cluster configuration.

import { copyFile, mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { goBuild } from '../../testbed/go-build.ts';
import { type Netns, netns } from '../../testbed/netns.ts';
import type { RunResult } from '../../testbed/run.ts';
import type { ApiServer } from '../../testbed/start-api-server.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
/**
 * Mounts the account's files where pods have them, for this program only: `ip netns exec` gives every program its own
 * mount namespace.
 */
const WITH_ACCOUNT = `
set -e
mount -t tmpfs pod /run
mkdir -p /run/secrets/kubernetes.io
cp -r "$1" ${ACCOUNT}
shift
exec "$@"`;

export interface Pod extends AsyncDisposable {
  readonly netns: Netns;
  /** kubectl with only the in-cluster configuration. */
  kubectl(...args: readonly string[]): Promise<RunResult>;
  /** A request by curl with the account's CA and token. */
  curl(url: string, ...args: readonly string[]): Promise<RunResult>;
}

export interface PodOptions {
  /** The node it runs on, which becomes a router. */
  readonly node: Netns;
  readonly api: ApiServer;
  /** An existing service account in `default`. */
  readonly account: string;
  /** Of Service `default/kubernetes`. */
  readonly clusterIp: string;
}

export async function startPod({ node, api, account, clusterIp }: PodOptions): Promise<Pod> {
  await using stack = new AsyncDisposableStack();
  const host = stack.use(await netns({ name: 'pod' }));
  // Both are on one link, so the node would send ICMP redirects to the pod.
  await succeeds(
    node,
    'sh',
    '-c',
    'cd /proc/sys/net/ipv4; echo 1 >ip_forward; echo 0 >conf/eth0/send_redirects',
  );
  await succeeds(host, 'ip', 'route', 'replace', 'default', 'via', node.address, 'dev', 'eth0', 'onlink');

  const dir = stack.use(await tempDir());
  const files = dir.file('account');
  await mkdir(files);
  await copyFile(api.caFile, join(files, 'ca.crt'));
  await writeFile(join(files, 'token'), (await api.kubectl('create', 'token', account)).trim());
  await writeFile(join(files, 'namespace'), 'default');

  async function inPod(command: string, args: readonly string[]): Promise<RunResult> {
    const home = await mkdtemp(dir.file('home-'));
    return host.run('sh', ['-c', WITH_ACCOUNT, 'sh', files, command, ...args], {
      env: {
        HOME: home,
        KUBECONFIG: '',
        NO_PROXY: '*',
        no_proxy: '*',
        KUBERNETES_SERVICE_HOST: clusterIp,
        KUBERNETES_SERVICE_PORT: '443',
      },
    });
  }
  const owned = stack.move();
  return {
    netns: host,
    kubectl: async (...args) => inPod(await goBuild('kubectl'), args),
    curl: (url, ...args) => {
      const request = `exec curl -sS -f --max-time 10 --cacert ${ACCOUNT}/ca.crt -H "Authorization: Bearer $(cat ${ACCOUNT}/token)" "$@"`;
      return inPod('sh', ['-c', request, 'sh', ...args, url]);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function succeeds(host: Netns, command: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await host.run(command, args);
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with code ${code}: ${stderr.trim()}`);
}
