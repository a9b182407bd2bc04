// BIND's named as a resolver in a test, which asks another server for some zones and nobody for anything else.

import { writeFile } from 'node:fs/promises';
import { freePort } from './free-port.ts';
import type { Program } from './program.ts';
import { runNamed } from './run-named.ts';
import { tempDir } from './temp-dir.ts';

export interface BindResolverOptions {
  readonly zones: readonly string[];
  /** The port on 127.0.0.1 of the server that answers for them. */
  readonly to: number;
}

export interface BindResolver extends Program {
  /** UDP and TCP. */
  readonly port: number;
}

export async function startBindResolver({ zones, to }: BindResolverOptions): Promise<BindResolver> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const port = await freePort();
  const forward = zones.map(
    zone => `zone "${zone}" { type forward; forward only; forwarders { 127.0.0.1 port ${to}; }; };`,
  );
  await writeFile(
    dir.file('named.conf'),
    `options {
  directory "${dir.path}";
  listen-on port ${port} { 127.0.0.1; };
  listen-on-v6 { none; };
  pid-file none;
  lock-file none;
  session-keyfile none;
  recursion yes;
  dnssec-validation no;
};
controls { };
${forward.join('\n')}
`,
  );
  const program = stack.use(await runNamed(dir));
  const owned = stack.move();
  return { ...program, port, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
