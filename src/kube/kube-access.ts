// Whom to trust, who we are and where to connect towards an API server: from the files and the environment that every
// pod has, or from a kubeconfig. Where to connect is only a default: the agent's own client goes through the agent's
// own uplink, whatever the kubeconfig or KUBERNETES_SERVICE_HOST says, since those may only work once the agent does.

export interface KubeCredentials {
  /** Where the API server is. Absent for a pod's service account without the pod's environment. */
  readonly server?: { readonly host: string; readonly port: number };
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
