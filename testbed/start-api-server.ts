// A real kube-apiserver with its own etcd: `await using api = await startApiServer({ sans: ['api.a.test'] })`.
// There is no controller and no kubelet: a test applies what it needs.

import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { type Authority, authorityOf, type Certificate } from './certificates.ts';
import { freePort } from './free-port.ts';
import { goBuild } from './go-build.ts';
import { kubeconfig, kubectl } from './kubectl.ts';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';
import { run } from './run.ts';
import { type Etcd, startEtcd } from './start-etcd.ts';
import { tempDir } from './temp-dir.ts';

export interface ApiServerOptions {
  /** Additional names and addresses in its certificate. */
  readonly sans?: readonly string[];
  /** Default 10.96.0.0/16; two, separated by a comma, for dual stack. */
  readonly serviceCidr?: string;
  /** Who writes the endpoints of Service `default/kubernetes`: nobody (default), or the API server itself. */
  readonly endpointReconciler?: 'none' | 'lease' | 'master-count';
  /** Default 127.0.0.1. */
  readonly bindAddress?: string;
  /** Default: any free port. */
  readonly port?: number;
  readonly netns?: Netns;
  /** Signs its certificate and those of its clients. Default: its own authority. */
  readonly authority?: Authority;
  /** An earlier server's store: with the same authority it is the same cluster. Default: an empty one. */
  readonly store?: Etcd;
  /** Further flags, such as `--v=2`. They override the defaults. */
  readonly flags?: readonly string[];
}

export interface UserKubeconfigOptions {
  /** Default: a client certificate, which proves possession of a key; a token can be forwarded by anyone. */
  readonly as?: 'certificate' | 'token';
  /** The server to dial. Default: the API server itself. */
  readonly server?: string;
  readonly serverName?: string;
}

export interface ApiServer extends Program {
  /** For example `https://127.0.0.1:16443`. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly authority: Authority;
  readonly caFile: string;
  /** Token of a user in system:masters. */
  readonly admin: Certificate;
  /** Token of another one. */
  readonly token: string;
  /** Writes a kubeconfig file for an administrator and returns its path. */
  kubeconfig(options?: UserKubeconfigOptions): Promise<string>;
  /** What kubectl prints, run as the administrator with the certificate. Rejects with its message. */
  kubectl(...args: readonly string[]): Promise<string>;
  /** Applies objects, taking over fields from other managers. */
  apply(...objects: readonly object[]): Promise<void>;
  /** Adds a ready node with its address, as a kubelet does. */
  addNode(name: string, address: string): Promise<void>;
}

/** Starts an API server, and resolves when it is ready and Service `default/kubernetes` exists. */
export async function startApiServer(options: ApiServerOptions = {}): Promise<ApiServer> {
  const { sans = [], serviceCidr = '10.96.0.0/16', endpointReconciler = 'none', netns, flags = [] } = options;
  const { bindAddress = '127.0.0.1', authority = await authorityOf(`cluster ${randomUUID()}`) } = options;
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const store = options.store ?? stack.use(await startEtcd({ netns }));
  const port = options.port ?? (await freePort());
  const host = reachable(bindAddress, netns);
  const url = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`;

  // RFC 6066 3: a client that dials an address sends no name, so the address must be in the certificate.
  const serving = await authority.certificateFor(
    'kubernetes.default.svc',
    'kubernetes.default.svc.cluster.local',
    'kubernetes.default',
    'kubernetes',
    'localhost',
    ...new Set(['127.0.0.1', host, ...serviceCidr.split(',').map(firstAddress), ...sans]),
  );
  const admin = await authority.clientCertificate({ user: 'admin', groups: ['system:masters'] });
  const token = randomUUID();
  await writeFile(dir.file('tokens.csv'), `${token},token-admin,token-admin,"system:masters"\n`);
  // One key per authority: tokens of service accounts outlive the process.
  const tokenSigner = await authority.certificateFor('service-accounts');

  const credentials = ['--cacert', authority.certFile, '--cert', admin.certFile, '--key', admin.keyFile];
  const answers = async (path: string) => {
    const args = ['--silent', '--fail', '--noproxy', '*', '--max-time', '5', ...credentials, `${url}${path}`];
    return (await run('curl', args, { netns })).code === 0;
  };
  const program = stack.use(
    await startProgram({
      command: await goBuild('kube-apiserver'),
      args: [
        `--etcd-servers=${store.url}`,
        `--secure-port=${port}`,
        `--bind-address=${bindAddress}`,
        `--cert-dir=${dir.path}`,
        `--tls-cert-file=${serving.certFile}`,
        `--tls-private-key-file=${serving.keyFile}`,
        `--client-ca-file=${authority.certFile}`,
        `--token-auth-file=${dir.file('tokens.csv')}`,
        '--authorization-mode=RBAC',
        '--service-account-issuer=https://kubernetes.default.svc',
        `--service-account-key-file=${tokenSigner.certFile}`,
        `--service-account-signing-key-file=${tokenSigner.keyFile}`,
        `--service-cluster-ip-range=${serviceCidr}`,
        `--endpoint-reconciler-type=${endpointReconciler}`,
        ...flags,
      ],
      netns,
      ready: {
        probe: async () =>
          (await answers('/readyz')) && answers('/api/v1/namespaces/default/services/kubernetes'),
      },
      // On SIGTERM it would keep serving for a while, so that load balancers notice.
      stopSignal: 'SIGKILL',
    }),
  );

  let files = 0;
  async function userKubeconfig(user: UserKubeconfigOptions = {}): Promise<string> {
    const file = dir.file(`kubeconfig-${++files}`);
    const { as = 'certificate', server = url, serverName } = user;
    const who = as === 'certificate' ? admin : { token };
    const text = await kubeconfig({ server, caFile: authority.certFile, serverName, user: who });
    await writeFile(file, text, { mode: 0o600 });
    return file;
  }
  const adminKubeconfig = await userKubeconfig();
  async function asAdmin(args: readonly string[], input = ''): Promise<string> {
    const { code, stdout, stderr } = await kubectl(adminKubeconfig, args, {
      input,
      netns,
    });
    if (code !== 0) throw new Error(`kubectl ${args.join(' ')} ended with code ${code}: ${stderr.trim()}`);
    return stdout.toString();
  }

  async function apply(objects: readonly object[], ...flags: readonly string[]): Promise<void> {
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
    await asAdmin(['apply', '--server-side', '--force-conflicts', ...flags, '-f', '-'], list);
  }

  const owned = stack.move();
  return {
    ...program,
    url,
    host,
    port,
    authority,
    caFile: authority.certFile,
    admin,
    token,
    kubeconfig: userKubeconfig,
    kubectl: (...args) => asAdmin(args),
    apply: (...objects) => apply(objects),
    async addNode(name, address) {
      const node = { apiVersion: 'v1', kind: 'Node', metadata: { name } };
      const status = {
        addresses: [{ type: 'InternalIP', address }],
        conditions: [{ type: 'Ready', status: 'True' }],
      };
      await apply([node]);
      await apply([{ ...node, status }], '--subresource=status');
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The host to dial for a server that is bound to an address. */
function reachable(bindAddress: string, netns: Netns | undefined): string {
  if (bindAddress === '0.0.0.0') return netns?.address ?? '127.0.0.1';
  if (bindAddress === '::') return netns?.address6 ?? '::1';
  return bindAddress;
}

/** Address of Service `default/kubernetes`: `10.96.0.0/16` → `10.96.0.1`, `fd00:10:96::/112` → `fd00:10:96::1`. */
function firstAddress(cidr: string): string {
  const [base] = cidr.split('/');
  if (isIPv6(base)) return `${base}1`;
  return base.replace(/\d+$/, last => String(Number(last) + 1));
}
