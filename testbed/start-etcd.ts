// A single etcd member for an API server: `await using store = await startEtcd()`.

import { freePort } from './free-port.ts';
import { goBuild } from './go-build.ts';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';
import { tempDir } from './temp-dir.ts';

export interface EtcdOptions {
  readonly netns?: Netns | undefined;
}

export interface Etcd extends Program {
  /** For clients on its own loopback. */
  readonly url: string;
  /** Forgets all revisions before the current one. */
  compact(): Promise<void>;
}

/** Starts an empty etcd on 127.0.0.1, and resolves when it accepts requests. */
export async function startEtcd({ netns }: EtcdOptions = {}): Promise<Etcd> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const url = `http://127.0.0.1:${await freePort()}`;
  const peers = `http://127.0.0.1:${await freePort()}`;
  const program = stack.use(
    await startProgram({
      command: await goBuild('etcd'),
      args: [
        `--data-dir=${dir.file('data')}`,
        `--listen-client-urls=${url}`,
        `--advertise-client-urls=${url}`,
        `--listen-peer-urls=${peers}`,
        `--initial-advertise-peer-urls=${peers}`,
        `--initial-cluster=default=${peers}`,
        // Nothing has to survive a power failure.
        '--unsafe-no-fsync',
      ],
      netns,
      ready: { log: /ready to serve client requests/ },
      // On SIGTERM it would transfer its leadership first.
      stopSignal: 'SIGKILL',
    }),
  );
  const owned = stack.move();
  return { ...program, url, compact: () => compact(url), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function compact(url: string): Promise<void> {
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${url}/v3/kv/${path}`, { method: 'POST', body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`etcd answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as { header: { revision: string } };
  };
  const { header } = await post('range', { key: 'YQ==' });
  await post('compaction', { revision: header.revision, physical: true });
}
