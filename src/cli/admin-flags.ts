// The flags by which a command finds the admin side of a running gateway, and logs in there.

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

/** For the help of a command that has them. */
export const adminFlagsHelp = `  --username NAME      A user of admin.auth; any role will do
  --password-file FILE The file with the password
  --ca-file FILE       Certificates to trust where the admin side has TLS (default: the system's)`;

export interface AdminFlagValues {
  readonly admin?: string | undefined;
  readonly username?: string | undefined;
  readonly 'password-file'?: string | undefined;
  readonly 'ca-file'?: string | undefined;
}

export function adminClient(values: AdminFlagValues): AdminClient {
  const { admin = DEFAULT_ADMIN, username, 'password-file': passwordFile, 'ca-file': caFile } = values;
  return new AdminClient({
    url: adminUrl(admin),
    ...credentials(username, passwordFile),
    ...(caFile !== undefined && { ca: readCa(caFile) }),
  });
}

function adminUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--admin must be a URL such as ${DEFAULT_ADMIN}: ${text}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('--admin must be without a password: give --username and --password-file');
  }
  return url;
}

function credentials(
  username: string | undefined,
  passwordFile: string | undefined,
): { user?: { username: string; password: string } } {
  if ((username === undefined) !== (passwordFile === undefined)) {
    throw new UsageError('--username and --password-file belong together: give both or neither');
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
    throw new UsageError(`--ca-file must hold certificates in PEM form: ${file} does not`, { cause: error });
  }
}

function read(flag: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})`;
    throw new UsageError(`${flag} must be a file that can be read: ${file}: ${why}`, { cause: error });
  }
}
