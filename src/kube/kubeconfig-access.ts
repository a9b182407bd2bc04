// Credentials from a kubeconfig file. The official client reads it and does what it knows: certificates, tokens,
// exec plugins, auth providers. It misses `tokenFile`, which kubeadm's kubeconfigs for pods have: that is added here.

import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { dirname, resolve } from 'node:path';
import { KubeConfig, makeAbsolutePath } from '@kubernetes/client-node';
import { parse } from 'yaml';
import { type KubeAccess, KubeAccessError, type KubeCredentials } from './kube-access.ts';

interface Loaded {
  readonly text: string;
  readonly config: KubeConfig;
  readonly serverName: string;
  readonly basePath: string;
}

/** Rejects with KubeAccessError where the file cannot be used as it is now; later it is read again when it changes. */
export async function kubeconfigAccess(file: string): Promise<KubeAccess> {
  const path = resolve(file);
  let loaded = parsed(path, await textOf(path));
  return {
    async credentials() {
      const text = await textOf(path);
      if (text !== loaded.text) loaded = parsed(path, text);
      return credentialsOf(path, loaded);
    },
  };
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw unusable(path, `cannot be read: ${(error as NodeJS.ErrnoException).code}`, error);
  }
}

function parsed(path: string, text: string): Loaded {
  const config = new KubeConfig();
  try {
    config.loadFromString(text);
    config.makePathsAbsolute(dirname(path));
    addTokenFiles(config, text, dirname(path));
  } catch (error) {
    throw unusable(path, `is not one: ${(error as Error).message.split('\n', 1)[0]}`, error);
  }
  const cluster = config.getCurrentCluster();
  if (cluster === null)
    throw unusable(path, `has no cluster for its current-context '${config.currentContext}'`);
  if (config.getCurrentUser() === null) {
    throw unusable(path, `has no user for its current-context '${config.currentContext}'`);
  }
  // The way through a gateway is only as safe as the certificate at its end.
  if (cluster.skipTLSVerify) {
    throw unusable(path, 'has insecure-skip-tls-verify. Give certificate-authority-data instead');
  }
  const url = URL.parse(cluster.server);
  if (url?.protocol !== 'https:')
    throw unusable(path, `must have an https:// server: current value is '${cluster.server}'`);
  return {
    text,
    config,
    serverName: cluster.tlsServerName || url.hostname.replaceAll(/[[\]]/g, ''),
    basePath: url.pathname.replace(/\/+$/, ''),
  };
}

/** As auth provider `tokenFile`, which the official client reads again every minute. */
function addTokenFiles(config: KubeConfig, text: string, directory: string): void {
  const { users } = parse(text) as { users?: { name: string; user?: { tokenFile?: string } }[] };
  const files = new Map(users?.map(({ name, user }) => [name, user?.tokenFile]));
  config.users = config.users.map(user => {
    const file = files.get(user.name);
    // The file wins over a token beside it, as with kubectl.
    if (file === undefined) return user;
    const { token: _, ...others } = user;
    const tokenFile = makeAbsolutePath(directory, file);
    return { ...others, authProvider: { name: 'tokenFile', config: { tokenFile } } };
  });
}

async function credentialsOf(
  path: string,
  { config, serverName, basePath }: Loaded,
): Promise<KubeCredentials> {
  const options: RequestOptions = {};
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    throw unusable(path, `gives no credentials: ${(error as Error).message.trim()}`, error);
  }
  const { ca, cert, key, auth } = options as { ca?: Buffer; cert?: Buffer; key?: Buffer; auth?: string };
  const headers = { ...(options.headers as Record<string, string> | undefined) };
  if (auth) headers.Authorization = `Basic ${Buffer.from(auth).toString('base64')}`;
  if (headers.Authorization) headers.Authorization = headers.Authorization.trim();
  return { serverName, basePath, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }), headers };
}

function unusable(path: string, what: string, cause?: unknown): KubeAccessError {
  return new KubeAccessError(`The kubeconfig '${path}' ${what}`, { cause });
}
