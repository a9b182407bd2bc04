// Whom to trust and who we are towards an API server: from the files that every pod has, or from a kubeconfig. Where
// to connect is not part of it: the agent's own client goes through the agent's own uplink, whatever the kubeconfig
// or KUBERNETES_SERVICE_HOST says, since those may only work once the agent does.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
/** Every API server has it in its certificate. */
const IN_CLUSTER_NAME = 'kubernetes.default.svc';

export interface KubeCredentials {
  /** The name or address that must be in the server's certificate. */
  readonly serverName: string;
  /** In front of every path: '' or as `/k8s/clusters/a`. */
  readonly basePath: string;
  /** PEM. Absent: the authorities that Node brings. */
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

export interface KubeAccess {
  /** Asked before each call, so that what was rotated is used at once. Rejects with a sentence. */
  credentials(): Promise<KubeCredentials>;
}

/** The operator must change something. The message says what. */
export class KubeAccessError extends Error {
  readonly code = 'ERR_KUBE_ACCESS';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'KubeAccessError';
  }
}

export interface KubeAccessOptions {
  /** Absent: the service account of the pod. */
  readonly kubeconfig?: string;
  /** Where the service account's files are. */
  readonly serviceAccount?: string;
}

/** Rejects with KubeAccessError where the files are not there or cannot be used. */
export async function openKubeAccess(options: KubeAccessOptions = {}): Promise<KubeAccess> {
  const { kubeconfig, serviceAccount = SERVICE_ACCOUNT } = options;
  if (kubeconfig === undefined) {
    const access = inClusterAccess(serviceAccount);
    await access.credentials();
    return access;
  }
  // Loaded only where it is used: it costs an agent a second at start, and as much memory as all the rest.
  const { kubeconfigAccess } = await import('./kubeconfig-access.ts');
  return kubeconfigAccess(kubeconfig);
}

function inClusterAccess(directory: string): KubeAccess {
  return {
    async credentials() {
      const [ca, token] = await Promise.all([
        serviceAccountFile(directory, 'ca.crt'),
        serviceAccountFile(directory, 'token'),
      ]);
      return {
        serverName: IN_CLUSTER_NAME,
        basePath: '',
        ca,
        headers: { Authorization: `Bearer ${token.trim()}` },
      };
    },
  };
}

async function serviceAccountFile(directory: string, name: string): Promise<string> {
  try {
    return await readFile(join(directory, name), 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new KubeAccessError(
      `Cannot read the service account's '${join(directory, name)}' (${code}). In a pod set automountServiceAccountToken: true; elsewhere give --kubeconfig`,
      { cause: error },
    );
  }
}
