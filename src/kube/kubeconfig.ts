// What a kubeconfig says, as far as it concerns one context. Pure: files that it names are read by
// kubeconfig-access.ts, plugins that it names are run by plugin-credentials.ts.

import { parse } from 'yaml';

/** PEM, or the path of a file with it as the kubeconfig has it. */
export type Pem = { readonly data: Buffer } | { readonly file: string };

export interface Kubeconfig {
  readonly server: { readonly host: string; readonly port: number };
  /** The name or address that must be in the server's certificate. */
  readonly serverName: string;
  /** In front of every path: '' or as `/k8s/clusters/a`. */
  readonly basePath: string;
  readonly ca?: Pem;
  readonly cert?: Pem;
  readonly key?: Pem;
  readonly token?: string;
  /** Wins over the token, as with kubectl. */
  readonly tokenFile?: string;
  readonly basic?: { readonly username: string; readonly password: string };
  /** Whom to act as. */
  readonly as?: string;
  /** The user's credentials come from elsewhere. */
  readonly plugin?: 'exec' | 'auth-provider';
}

/** Why a text is no kubeconfig that we can use: the end of a sentence that begins with its name. */
export class KubeconfigFault extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'KubeconfigFault';
  }
}

/** `context` absent: the one that the kubeconfig calls current. Throws KubeconfigFault. */
export function parseKubeconfig(text: string, context?: string): Kubeconfig {
  const config = mappingOf(text);
  const chosen = context ?? stringOf(config, 'current-context') ?? '';
  const what = context === undefined ? `current-context '${chosen}'` : `context '${chosen}'`;
  const found = named(config, 'contexts', 'context', chosen);
  if (found === undefined) throw new KubeconfigFault(`has no context for its ${what}`);
  const cluster = named(config, 'clusters', 'cluster', stringOf(found, 'cluster') ?? '');
  if (cluster === undefined) throw new KubeconfigFault(`has no cluster for its ${what}`);
  const user = named(config, 'users', 'user', stringOf(found, 'user') ?? '');
  if (user === undefined) throw new KubeconfigFault(`has no user for its ${what}`);
  return { ...serverOf(cluster), ...credentialsOf(user) };
}

type Mapping = Readonly<Record<string, unknown>>;

function mappingOf(text: string): Mapping {
  let value: unknown;
  try {
    value = parse(text, { prettyErrors: false });
  } catch (error) {
    throw new KubeconfigFault(`is not YAML: ${(error as Error).message.split('\n', 1)[0]}`, { cause: error });
  }
  if (!isMapping(value)) throw new KubeconfigFault('is not one: it has no clusters, users and contexts');
  return value;
}

/** The entry of a list of `{ name, [key]: {…} }`. */
function named(config: Mapping, list: string, key: string, name: string): Mapping | undefined {
  const entries = config[list] ?? [];
  if (!Array.isArray(entries)) throw new KubeconfigFault(`is not one: '${list}' is no list`);
  const i = entries.findIndex(each => isMapping(each) && each.name === name);
  if (i < 0) return undefined;
  const value: unknown = entries[i][key] ?? (key === 'user' ? {} : undefined);
  if (!isMapping(value)) throw new KubeconfigFault(`is not one: ${list}[${i}] has no '${key}'`);
  return value;
}

function serverOf(cluster: Mapping): Pick<Kubeconfig, 'server' | 'serverName' | 'basePath' | 'ca'> {
  // A way through a gateway is only as safe as the certificate at its end.
  if (cluster['insecure-skip-tls-verify'] === true) {
    throw new KubeconfigFault('has insecure-skip-tls-verify. Give certificate-authority-data instead');
  }
  if (cluster['proxy-url']) {
    throw new KubeconfigFault(
      'has a proxy-url, and proxies are not supported. Give a server that is reached directly',
    );
  }
  const server = stringOf(cluster, 'server') ?? '';
  const url = URL.parse(server);
  if (url?.protocol !== 'https:') {
    throw new KubeconfigFault(`must have an https:// server: current value is '${server}'`);
  }
  const host = url.hostname.replaceAll(/[[\]]/g, '');
  return {
    server: { host, port: Number(url.port || 443) },
    serverName: stringOf(cluster, 'tls-server-name') || host,
    basePath: url.pathname.replace(/\/+$/, ''),
    ...pemOf(cluster, 'certificate-authority', 'ca'),
  };
}

function credentialsOf(user: Mapping): Omit<Kubeconfig, 'server' | 'serverName' | 'basePath' | 'ca'> {
  for (const key of ['as-uid', 'as-groups', 'as-user-extra']) {
    if (user[key] !== undefined) throw new KubeconfigFault(`has ${key}, which is not supported`);
  }
  const cert = pemOf(user, 'client-certificate', 'cert');
  const key = pemOf(user, 'client-key', 'key');
  if ('cert' in cert !== 'key' in key) {
    throw new KubeconfigFault('must have both a client certificate and its key, or neither');
  }
  const [token, tokenFile, username, as] = ['token', 'tokenFile', 'username', 'as'].map(key =>
    stringOf(user, key),
  );
  const plugin = isMapping(user.exec)
    ? 'exec'
    : isMapping(user['auth-provider'])
      ? 'auth-provider'
      : undefined;
  return {
    ...cert,
    ...key,
    ...(token && { token }),
    ...(tokenFile && { tokenFile }),
    ...(username && { basic: { username, password: stringOf(user, 'password') ?? '' } }),
    ...(as && { as }),
    ...(plugin && { plugin }),
  };
}

/** Data wins over a file, as with kubectl. */
function pemOf<K extends string>(entry: Mapping, key: string, as: K): { readonly [P in K]?: Pem } {
  const data = stringOf(entry, `${key}-data`);
  const file = stringOf(entry, key);
  if (!data) return (file ? { [as]: { file } } : {}) as { readonly [P in K]?: Pem };
  const bytes = Buffer.from(data, 'base64');
  if (!bytes.includes('-----BEGIN ')) throw new KubeconfigFault(`has no PEM in base64 in ${key}-data`);
  return { [as]: { data: bytes } } as { readonly [P in K]?: Pem };
}

function stringOf(entry: Mapping, key: string): string | undefined {
  const value = entry[key] ?? undefined;
  if (value !== undefined && typeof value !== 'string') {
    throw new KubeconfigFault(`is not one: '${key}' is no string`);
  }
  return value;
}

function isMapping(value: unknown): value is Mapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
