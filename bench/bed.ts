// Shared by all measurements: the load generator, its ports, the hello, and the pinning to cores.

import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { keepPort } from '../testbed/free-port.ts';
import { tempDir } from '../testbed/temp-dir.ts';
import { buildLoad } from './load-generator.ts';
import { availableCores, choosePinning, chooseSharedPinning, type Pinning } from './pinning.ts';
import { type BackendKind, backendKinds, benchHello } from './routes.ts';
import { buildTlsLoad } from './tls-load.ts';

/** Descriptors that are not connections: listeners, the runtime's, logs. */
const OTHER_FILES = 600;
/** Upper bound: enough for a figure per tunnel, and few enough for the ports of a backend. */
const MAX_CONNECTIONS = 20_000;

export interface Bed extends AsyncDisposable {
  readonly ports: Readonly<Record<BackendKind, number>>;
  readonly hello: { readonly file: string; readonly nameAt: number };
  readonly load: { readonly program: string; readonly cores: readonly number[]; readonly threads: number };
  tlsProgram(): Promise<string>;
  readonly pinning: Pinning;
  readonly sharedPinning: Pinning;
  /** Number of tunnels that a proxy can hold within the open-file limit. */
  readonly connections: number;
}

export async function openBed(): Promise<Bed> {
  const program = await buildLoad();
  const cores = await availableCores();
  const pinning = choosePinning(cores);
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const { bytes, nameAt } = benchHello();
  const file = dir.file('hello');
  await writeFile(file, bytes);
  const entries: (readonly [BackendKind, number])[] = [];
  // The load listens only while it runs.
  for (const kind of backendKinds) entries.push([kind, await keepPort()]);
  let tls: Promise<string> | undefined;
  const owned = stack.move();
  return {
    ports: Object.fromEntries(entries) as Record<BackendKind, number>,
    hello: { file, nameAt },
    load: { program, cores: pinning.load, threads: pinning.load.length },
    tlsProgram: () => (tls ??= buildTlsLoad()),
    pinning,
    sharedPinning: chooseSharedPinning(cores),
    connections: Math.min(MAX_CONNECTIONS, Math.floor((openFiles() - OTHER_FILES) / 2)),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function openFiles(): number {
  const hard = execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).trim();
  return hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard);
}
