// The admin server's options from the file.

import { dirname, resolve } from 'node:path';
import type { Logger } from 'pino';
import type { AdminServer } from '../admin/admin-server.ts';
import type { Config, ListenAddress } from '../config/config.ts';
import { KeyPairError } from '../config/key-pair.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { reactorErrorOf } from '../gateway/io/net-reactor.ts';
import { ConfigError } from './config-error.ts';

type AdminServerOptions = Parameters<typeof AdminServer.start>[0];

/** File names are relative to causeway.yaml. */
export function adminOptions(
  file: string,
  on: ListenAddress,
  { hosts, auth, tls }: Config['admin'],
  log: Logger,
): AdminServerOptions {
  const absolute = (name: string) => resolve(dirname(file), name);
  return {
    ...on,
    hosts,
    auth: auth.map(user => ({ ...user, passwordFile: absolute(user.passwordFile) })),
    log,
    ...(tls !== undefined && {
      tls: { certFile: absolute(tls.certFile), keyFile: absolute(tls.keyFile) },
    }),
  };
}

/** Why the admin server did not start, as `run` reports it. */
export function adminError(file: string, { host, port }: ListenAddress, error: unknown): Error {
  if (error instanceof KeyPairError) return new ConfigError([`${file}: admin.tls.${error.message}`]);
  return new ListenError(`${host}:${port} (admin.on)`, reactorErrorOf(error as NodeJS.ErrnoException));
}
