// CoreDNS in a test: `await using dns = await startCoredns({ plugins: 'whoami' })`.

import { writeFile } from 'node:fs/promises';
import { freePort } from './free-port.ts';
import { goBuild } from './go-build.ts';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';
import { tempDir } from './temp-dir.ts';

export interface CorednsOptions {
  /** The content of `.:port { }`: plugins, one per line. */
  readonly plugins: string;
  /** Default 127.0.0.1. */
  readonly bindAddress?: string;
  /** For UDP and TCP. Default: any free port. */
  readonly port?: number;
  readonly netns?: Netns;
}

export interface Coredns extends Program {
  readonly port: number;
}

/** Starts CoreDNS for all names, and resolves when it answers. */
export async function startCoredns(options: CorednsOptions): Promise<Coredns> {
  const { plugins, bindAddress = '127.0.0.1', port = await freePort(), netns } = options;
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const file = dir.file('Corefile');
  await writeFile(file, `.:${port} {\n  bind ${bindAddress}\n${plugins}\n}\n`);
  const program = stack.use(
    await startProgram({
      command: await goBuild('coredns'),
      args: ['-conf', file],
      cwd: dir.path,
      netns,
      // Printed once its servers are bound.
      ready: { log: /^CoreDNS-\d/m },
      stopSignal: 'SIGKILL',
    }),
  );
  const owned = stack.move();
  return { ...program, port, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
