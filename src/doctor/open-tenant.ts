// The API server of a cluster, as the doctor asks it: through the gateway, under its API host, with the credentials of a
// kubeconfig file or of the admin Secret. The certificate is verified, since credentials are sent.

import type { KubeAccess, KubeCredentials } from '../kube/kube-access.ts';
import { KubeAccessError } from '../kube/kube-access.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import { openKubeClient } from '../kube/kube-client.ts';
import type { Problem } from '../kube/tenant-credentials.ts';
import type { Address } from './network.ts';

/** For one call: a person waits. */
const TIMEOUT_MS = 8000;

export interface Tenant {
  /** `kubeconfig FILE` or `Secret NAMESPACE/NAME`. */
  readonly from: string;
  /** The name that the kubeconfig asks for; undefined where it is meant for use inside the management cluster. */
  readonly server: string | undefined;
  readonly ca: string | Buffer | undefined;
  /** Why there are no credentials. */
  readonly problem: Problem | undefined;
  readonly api: KubeApi;
}

export interface TenantOptions {
  readonly from: string;
  readonly access: KubeAccess;
  /** Where the gateway is, and the host to ask for. Absent: where the kubeconfig says. */
  readonly through?: { readonly at: Address; readonly serverName: string } | undefined;
  /** The kubeconfig is one that people use, so that its server matters. */
  readonly isPersonal: boolean;
  readonly problem: () => Problem | undefined;
}

/** Disposing ends the calls under way. */
export async function openTenant(options: TenantOptions): Promise<Tenant & Disposable> {
  const { from, access, through, isPersonal } = options;
  let credentials: KubeCredentials | undefined;
  let failure: Problem | undefined;
  try {
    credentials = await access.credentials();
  } catch (error) {
    if (!(error instanceof KubeAccessError)) throw error;
    failure = options.problem() ?? (isPersonal ? unusable(error) : unread(error));
  }
  const client = openKubeClient({
    access: {
      async credentials() {
        const current = await access.credentials();
        return through === undefined ? current : { ...current, serverName: through.serverName };
      },
    },
    timeoutMs: TIMEOUT_MS,
    ...(through !== undefined && { at: through.at }),
  });
  return {
    from,
    server: isPersonal ? credentials?.serverName : undefined,
    ca: credentials?.ca,
    problem: failure,
    api: client,
    [Symbol.dispose]: () => client[Symbol.dispose](),
  };
}

function unusable({ message }: Error): Problem {
  const fix = 'Fetch the kubeconfig again, and give a file that has everything in itself';
  return { code: 'KubeconfigInvalid', text: message, fix };
}

/** The management cluster's trouble. */
function unread({ message }: Error): Problem {
  const fix = 'Look at the API server that has the Secret, and at the rights of the kubeconfig for it';
  return { code: 'TenantUnreachable', text: message, fix };
}
