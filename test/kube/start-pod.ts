// A pod as far as its network and its way to the API server go: a host of its own whose only way out is its node, with
// the environment and the files of a service account that every pod has. Programs in it use what client libraries call
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
 * Mounts the account's files where pods have them, for this program alone: `ip netns exec` gives every program a mount
 * namespace of its own.
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
  /** kubectl without any configuration but the pod's own. */
  kubectl(...args: readonly string[]): Promise<RunResult>;
  /** A request by curl with the account's CA and token. */
  curl(url: string, ...args: readonly string[]): Promise<RunResult>;
}

export interface PodOptions {
  /** Where it runs. Becomes a router. */
  readonly node: Netns;
  readonly api: ApiServer;
  /** A service account in `default`, which must be there. */
  readonly account: string;
  /** Of Service `default/kubernetes`. */
  readonly clusterIp: string;
}

export async function startPod({ node, api, account, clusterIp }: PodOptions): Promise<Pod> {
  await using stack = new AsyncDisposableStack();
  const host = stack.use(await netns({ name: 'pod' }));
  // Both on one link, the node would tell the pod of shorter ways.
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
