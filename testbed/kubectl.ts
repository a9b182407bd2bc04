// kubectl, and kubeconfig files.

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Certificate } from './certificates.ts';
import { goBuild } from './go-build.ts';
import { type RunOptions, type RunResult, run } from './run.ts';

export interface KubeconfigOptions {
  /** For example `https://127.0.0.1:6443`. */
  readonly server: string;
  readonly caFile: string;
  /** Sent as SNI, and must be in the server's certificate. Default: the server's host. */
  readonly serverName?: string | undefined;
  /** A client certificate, or a bearer token. */
  readonly user: Certificate | { readonly token: string };
}

/** A self-contained kubeconfig file, as JSON, which is YAML. */
export async function kubeconfig({ server, caFile, serverName, user }: KubeconfigOptions): Promise<string> {
  const base64 = async (file: string) => (await readFile(file)).toString('base64');
  const credentials =
    'token' in user
      ? { token: user.token }
      : {
          'client-certificate-data': await base64(user.certFile),
          'client-key-data': await base64(user.keyFile),
        };
  const cluster = {
    server,
    'certificate-authority-data': await base64(caFile),
    ...(serverName !== undefined && { 'tls-server-name': serverName }),
  };
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'test', user: credentials }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  });
}

/** Runs kubectl with a kubeconfig file. It neither reads nor writes the user's own files. */
export async function kubectl(
  kubeconfigFile: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  const home = await mkdtemp(join(tmpdir(), 'causeway-kubectl-'));
  try {
    // kubectl would use the machine's HTTP proxy for every address but 127.0.0.1.
    const env = { ...options.env, HOME: home, KUBECONFIG: '', NO_PROXY: '*', no_proxy: '*' };
    return await run(await goBuild('kubectl'), [`--kubeconfig=${kubeconfigFile}`, ...args], {
      ...options,
      env,
    });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}
