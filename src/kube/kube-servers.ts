// The API servers that sources and outputs name: one client for each kubeconfig and context.

import { resolve } from 'node:path';
import type { KubeAccess } from './kube-access.ts';
import type { KubeApi } from './kube-api.ts';
import { openKubeClient } from './kube-client.ts';
import { openKubeAccess } from './open-kube-access.ts';

export interface KubeServer {
  /** A file. Absent: the service account of the pod. */
  readonly kubeconfig?: string | undefined;
  /** Of the kubeconfig. Absent: its current one. */
  readonly context?: string | undefined;
}

export interface KubeServersOptions {
  /** Relative file names start here. */
  readonly folder: string;
  /** For KUBERNETES_SERVICE_HOST and _PORT. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export class KubeServers implements Disposable {
  readonly #options: KubeServersOptions;
  readonly #clients = new Map<string, KubeApi & Disposable>();

  constructor(options: KubeServersOptions) {
    this.#options = options;
  }

  /** The same client for the same server. */
  api(server: KubeServer): KubeApi {
    const key = serverKey(server);
    const known = this.#clients.get(key) ?? this.open(server);
    this.#clients.set(key, known);
    return known;
  }

  /** A client of its own, for calls that must not wait behind others. The caller disposes of it. */
  open(server: KubeServer): KubeApi & Disposable {
    return openKubeClient({ access: lazyAccess(server, this.#options) });
  }

  [Symbol.dispose](): void {
    for (const client of this.#clients.values()) client[Symbol.dispose]();
    this.#clients.clear();
  }
}

export function serverKey({ kubeconfig, context }: KubeServer): string {
  return JSON.stringify([kubeconfig ?? null, context ?? null]);
}

/** Opened with the first call. Where that fails, the call fails, and the next one tries again. */
function lazyAccess({ kubeconfig, context }: KubeServer, options: KubeServersOptions): KubeAccess {
  const { folder, environment } = options;
  let opened: Promise<KubeAccess> | undefined;
  const open = () =>
    openKubeAccess({
      environment,
      ...(kubeconfig !== undefined && { kubeconfig: resolve(folder, kubeconfig) }),
      ...(context !== undefined && { context }),
    });
  return {
    async credentials() {
      opened ??= open();
      try {
        return await (await opened).credentials();
      } catch (error) {
        opened = undefined;
        throw error;
      }
    },
  };
}
