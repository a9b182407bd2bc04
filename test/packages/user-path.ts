// What a new user does after each way of installing: writes a file for two clusters, checks it, runs it, and sees a
// connection arrive at each cluster; later installs a new version, which takes over.

import assert from 'node:assert/strict';
import { chown, mkdir } from 'node:fs/promises';
import type { CleanRoot } from '../../testbed/clean-root.ts';
import { logLines } from '../../testbed/log-lines.ts';
import type { Program } from '../../testbed/program.ts';
import type { RunResult } from '../../testbed/run.ts';
import { Backend, hello, servedBy, until } from '../features/given.ts';

/** The command `causeway` as it was installed. */
export interface Installed {
  run(args: readonly string[]): Promise<RunResult>;
  /** Resolves when it is ready. */
  start(args: readonly string[]): Promise<Program>;
  /** Writes causeway.yaml and returns its path for the program. */
  write(text: string): Promise<string>;
}

export interface Serving extends AsyncDisposable {
  readonly program: Program;
  readonly file: string;
  readonly port: number;
  /** A host of a cluster, and the line that its backend sends. */
  readonly clusters: readonly { readonly host: string; readonly name: string }[];
}

/** Ends with a gateway that serves both clusters; the caller goes on with it, such as with an upgrade. */
export async function followUserPath(installed: Installed): Promise<Serving> {
  await using stack = new AsyncDisposableStack();
  const clusters = [];
  for (const name of ['lab', 'prod']) {
    const backend = stack.use(await Backend.start({ name }));
    clusters.push({ name, host: `api.${name}.example.com`, backend: backend.text });
  }
  const lines = clusters.map(
    ({ name, host, backend }) =>
      `  - name: ${name}\n    api: { hosts: [${host}], backends: ["${backend}"], health: { check: tcp } }\n`,
  );
  const bad = await installed.write('listen: ["127.0.0.1:0"]\nclusterz: []\n');
  const refused = await installed.run(['check', '-c', bad]);
  assert.equal(refused.code, 1);
  assert.match(`${refused.stdout}${refused.stderr}`, /causeway\.yaml:2:1: .*clusters/);

  const file = await installed.write(
    `listen: ["127.0.0.1:0"]\nadmin: { on: "127.0.0.1:0" }\nclusters:\n${lines.join('')}`,
  );
  const checked = await installed.run(['check', '-c', file]);
  assert.deepEqual([checked.code, checked.stdout.toString()], [0, 'ok: 2 clusters, 2 routes, 2 hosts\n']);

  const program = stack.use(await installed.start(['run', '-c', file]));
  const ready = await logLines(program).line(({ msg }) => msg === 'ready');
  assert.equal(ready.engine, 'epoll');
  const port = Number((ready.listen as string[])[0].split(':').at(-1));
  for (const { host, name } of clusters) assert.equal(await servedBy(port, hello(host)), name);
  const status = await installed.run(['status', '--admin', String(ready.admin)]);
  assert.equal(status.code, 0, status.stderr);
  const kept = stack.move();
  return { program, file, port, clusters, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** Installs the new version while clients come all the time, and starts it: it takes over, and no client is refused. */
export async function upgradeUnderLoad(
  { program: old, file, port, clusters }: Serving,
  install: () => Promise<void>,
  installed: Pick<Installed, 'start'>,
): Promise<void> {
  const visits = { count: 0, isOver: false };
  const visitors = clusters.map(async ({ host, name }) => {
    for (; !visits.isOver; visits.count++) assert.equal(await servedBy(port, hello(host)), name);
  });
  await install();
  await using next = await installed.start(['run', '-c', file, '--replace']);
  const ready = await logLines(next).line(({ msg }) => msg === 'ready');
  assert.equal(ready.replaced, old.pid);
  assert.deepEqual(await old.ended, { code: 0, signal: null });
  const served = visits.count;
  await until('more visits', () => visits.count > served + 10);
  visits.isOver = true;
  await Promise.all(visitors);
}

/** /run/causeway, the default runDir, for that user. */
export async function makeRunDir(root: CleanRoot, uid: number): Promise<void> {
  const path = root.file('run/causeway');
  await mkdir(path, { recursive: true, mode: 0o700 });
  await chown(path, uid, uid);
}
