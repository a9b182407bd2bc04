// The flags that tell a command where the admin API of a running gateway is, and how to log in.

import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { AdminClient } from './admin-client.ts';
import { UsageError } from './command.ts';

export const DEFAULT_ADMIN = 'http://127.0.0.1:9440';

export const adminFlags = {
  admin: { type: 'string' },
  username: { type: 'string' },
  'password-file': { type: 'string' },
  'ca-file': { type: 'string' },
} as const;

/** For the help of a command that takes these flags. */
export const adminFlagsHelp = `  --username NAME      A user of admin.auth, with any role
  --password-file FILE A file that contains the password
  --ca-file FILE       CA certificates to trust when the admin API uses TLS (default: the system's)`;

export interface AdminFlagValues {
  readonly admin?: string | undefined;
  readonly username?: string | undefined;
  readonly 'password-file'?: string | undefined;
  readonly 'ca-file'?: string | undefined;
}

export function adminClient(values: AdminFlagValues, signal?: AbortSignal): AdminClient {
  const { admin = DEFAULT_ADMIN, username, 'password-file': passwordFile, 'ca-file': caFile } = values;
  return new AdminClient({
    url: adminUrl(admin),
    ...credentials(username, passwordFile),
    ...(caFile !== undefined && { ca: readCa(caFile) }),
    signal,
  });
}

function adminUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--admin must be a URL such as ${DEFAULT_ADMIN}: ${text}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('--admin must not contain credentials: give --username and --password-file');
  }
  return url;
}

function credentials(
  username: string | undefined,
  passwordFile: string | undefined,
): { user?: { username: string; password: string } } {
  if ((username === undefined) !== (passwordFile === undefined)) {
    throw new UsageError('--username and --password-file must be given together');
  }
  if (username === undefined || passwordFile === undefined) return {};
  const password = read('--password-file', passwordFile).replace(/\r?\n$/, '');
  return { user: { username, password } };
}

function readCa(file: string): string {
  const content = read('--ca-file', file);
  try {
    void new X509Certificate(content);
    return content;
  } catch (error) {
    throw new UsageError(`--ca-file must contain PEM certificates: ${file} does not`, { cause: error });
  }
}

function read(flag: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'no such file' : `cannot be read (${code})`;
    throw new UsageError(`${flag} must be a readable file: ${file}: ${why}`, { cause: error });
  }
}
