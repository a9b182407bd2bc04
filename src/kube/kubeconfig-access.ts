// Credentials from a kubeconfig: a file with the files and plugins that it names, or a text, as Secrets have it, which
// must have everything in itself.

import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import { type KubeAccess, KubeAccessError, type KubeCredentials } from './kube-access.ts';
import { type Kubeconfig, KubeconfigFault, type Pem, parseKubeconfig } from './kubeconfig.ts';
import type { pluginCredentials } from './plugin-credentials.ts';

interface Loaded {
  readonly text: string;
  readonly config: Kubeconfig;
  plugin?: ReturnType<typeof pluginCredentials>;
}

/** Rejects with KubeAccessError where the file cannot be used as it is now; later it is read again when it changes. */
export async function kubeconfigAccess(file: string, context?: string): Promise<KubeAccess> {
  const path = resolve(file);
  const directory = dirname(path);
  const load = (text: string): Loaded => ({ text, config: parsed(`'${path}'`, text, context) });
  let loaded = load(await textOf(path));
  return {
    async credentials() {
      const text = await textOf(path);
      if (text !== loaded.text) loaded = load(text);
      // Another may be loaded meanwhile.
      const current = loaded;
      const { config } = current;
      const [ca, cert, key, tokenFile] = await Promise.all([
        pemOf(path, directory, config.ca),
        pemOf(path, directory, config.cert),
        pemOf(path, directory, config.key),
        config.tokenFile === undefined ? undefined : namedFile(path, directory, config.tokenFile),
      ]);
      const own = credentialsOf(config, { ca, cert, key, token: tokenFile?.toString() ?? config.token });
      if (config.plugin === undefined) return own;
      try {
        // Loaded only where it is used: it takes a second and 75 MB.
        const { pluginCredentials } = await import('./plugin-credentials.ts');
        current.plugin ??= pluginCredentials(text, context, directory);
        const given = await current.plugin();
        return { ...own, ...given, headers: { ...own.headers, ...given.headers } };
      } catch (error) {
        throw unusable(`'${path}'`, `gives no credentials: ${(error as Error).message.trim()}`, error);
      }
    },
  };
}

export interface KubeconfigTextOptions {
  /** What messages call it, as `of Secret tenants/a-admin-kubeconfig`. */
  readonly name: string;
  readonly context?: string;
}

/** Throws KubeAccessError where the text cannot be used. It reads no files and starts no programs. */
export function kubeconfigFromText(text: string, { name, context }: KubeconfigTextOptions): KubeAccess {
  const config = parsed(name, text, context);
  const { ca, cert, key, token, tokenFile, basic, plugin } = config;
  if (plugin !== undefined) {
    throw unusable(name, `has credentials from ${plugin}. Give a token or client-certificate-data instead`);
  }
  if (tokenFile !== undefined) throw unusable(name, 'has a tokenFile. Give a token instead');
  const data = (pem: Pem | undefined, key: string) => {
    if (pem === undefined || 'data' in pem) return pem?.data;
    throw unusable(name, `names a file in ${key}. Give ${key}-data instead`);
  };
  const certificates = {
    ca: data(ca, 'certificate-authority'),
    cert: data(cert, 'client-certificate'),
    key: data(key, 'client-key'),
  };
  if (cert === undefined && token === undefined && basic === undefined) {
    throw unusable(name, 'has no credentials. Give a token or client-certificate-data');
  }
  try {
    // A context takes any rubbish for authorities.
    if (certificates.ca !== undefined) void new X509Certificate(certificates.ca);
    createSecureContext(certificates);
  } catch (error) {
    throw unusable(name, `has certificates that cannot be used: ${(error as Error).message}`, error);
  }
  const credentials = credentialsOf(config, { ...certificates, token });
  return { credentials: async () => credentials };
}

interface Secrets {
  readonly ca: Buffer | undefined;
  readonly cert: Buffer | undefined;
  readonly key: Buffer | undefined;
  readonly token: string | undefined;
}

function credentialsOf(config: Kubeconfig, { ca, cert, key, token }: Secrets): KubeCredentials {
  const { server, serverName, basePath, basic, as } = config;
  const headers: Record<string, string> = {};
  if (basic !== undefined) {
    const userinfo = Buffer.from(`${basic.username}:${basic.password}`).toString('base64');
    headers.Authorization = `Basic ${userinfo}`;
  }
  if (token !== undefined) headers.Authorization = `Bearer ${token.trim()}`;
  if (as !== undefined) headers['Impersonate-User'] = as;
  return {
    server,
    serverName,
    basePath,
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
    headers,
  };
}

function parsed(name: string, text: string, context: string | undefined): Kubeconfig {
  try {
    return parseKubeconfig(text, context);
  } catch (error) {
    if (error instanceof KubeconfigFault) throw unusable(name, error.message, error);
    throw error;
  }
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw unusable(`'${path}'`, `cannot be read: ${(error as NodeJS.ErrnoException).code}`, error);
  }
}

async function pemOf(path: string, directory: string, pem: Pem | undefined): Promise<Buffer | undefined> {
  if (pem === undefined) return undefined;
  return 'data' in pem ? pem.data : namedFile(path, directory, pem.file);
}

/** Paths in a kubeconfig are relative to its folder. */
async function namedFile(path: string, directory: string, file: string): Promise<Buffer> {
  try {
    return await readFile(resolve(directory, file));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw unusable(`'${path}'`, `names '${file}', which cannot be read: ${code}`, error);
  }
}

function unusable(name: string, what: string, cause?: unknown): KubeAccessError {
  return new KubeAccessError(`The kubeconfig ${name} ${what}`, { cause });
}
