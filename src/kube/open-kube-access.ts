// Opens an access to an API server: a kubeconfig file, or what every pod has.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type KubeAccess, KubeAccessError, type KubeCredentials } from './kube-access.ts';

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
/** Every API server has it in its certificate. */
const IN_CLUSTER_NAME = 'kubernetes.default.svc';

export interface KubeAccessOptions {
  /** A file. Absent: the service account of the pod. */
  readonly kubeconfig?: string;
  /** Of the kubeconfig. Absent: its current one. */
  readonly context?: string;
  /** Where the service account's files are. */
  readonly serviceAccount?: string;
  /** The pod's, for KUBERNETES_SERVICE_HOST and _PORT. Absent where the client is told where to connect. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

/** Rejects with KubeAccessError where the files are not there or cannot be used. */
export async function openKubeAccess(options: KubeAccessOptions = {}): Promise<KubeAccess> {
  const { kubeconfig, context, serviceAccount = SERVICE_ACCOUNT, environment } = options;
  if (kubeconfig !== undefined) {
    // Loaded only where it is used: its YAML parser takes 5 MiB.
    const { kubeconfigAccess } = await import('./kubeconfig-access.ts');
    return kubeconfigAccess(kubeconfig, context);
  }
  const access = inClusterAccess(serviceAccount, environment && serverOf(environment));
  await access.credentials();
  return access;
}

function serverOf(environment: NonNullable<KubeAccessOptions['environment']>) {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = environment;
  if (!host || !port) {
    throw new KubeAccessError(
      'Cannot find the API server, as KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod. Give a kubeconfig',
    );
  }
  return { host, port: Number(port) };
}

function inClusterAccess(directory: string, server: KubeCredentials['server']): KubeAccess {
  return {
    async credentials() {
      const [ca, token] = await Promise.all([
        serviceAccountFile(directory, 'ca.crt'),
        serviceAccountFile(directory, 'token'),
      ]);
      return {
        ...(server && { server }),
        // As client-go: the host that is dialled. Where it is a name, a router on the way may need it as SNI.
        serverName: server?.host ?? IN_CLUSTER_NAME,
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
      `Cannot read the service account's '${join(directory, name)}' (${code}). In a pod set automountServiceAccountToken: true; elsewhere give a kubeconfig`,
      { cause: error },
    );
  }
}
