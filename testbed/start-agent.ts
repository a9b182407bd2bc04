// Starts `causeway agent` as a user would, in its own process or on a tenant's host, and reads its log:
// `await using agent = await startAgent({ uplink: 'proxy', gateway: '127.0.0.1:6443', id: 'a-1' })`.

import { type LogLine, type LogLines, logLines } from './log-lines.ts';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';
import { causewayBin } from './start-causeway.ts';
import { tempDir } from './temp-dir.ts';

export interface AgentOptions {
  readonly uplink: 'proxy' | 'connect' | 'tunnel' | 'terminate';
  /** `host:port`. */
  readonly gateway: string;
  readonly id: string;
  /** Default: 127.0.0.1 and any free port. */
  readonly on?: string;
  /** Further flags. */
  readonly args?: readonly string[];
  /** Replaces all flags. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly netns?: Netns;
}

export interface RunningAgent extends AsyncDisposable, LogLines {
  readonly program: Program;
  readonly port: number;
  readonly ready: LogLine;
  /** URL of its metrics endpoint. */
  readonly metrics: string;
}

/** Resolves when it listens, whether or not there is a gateway. */
export async function startAgent(options: AgentOptions): Promise<RunningAgent> {
  const { uplink, gateway, id, on = '127.0.0.1:0', args = [], environment, netns } = options;
  const flags = ['--cluster-id', id, '--gateway', gateway, '--uplink', uplink, '--on', on, ...engineArgs()];
  await using stack = new AsyncDisposableStack();
  // A killed agent leaves its folder of sockets behind.
  const dir = stack.use(await tempDir());
  const program = stack.use(
    await startProgram({
      command: causewayBin,
      args: ['agent', ...(environment === undefined ? [...flags, ...args] : args)],
      env: { ...environment, TMPDIR: dir.path },
      netns,
      ready: { log: /"msg":"ready"/ },
    }),
  );
  const log = logLines(program);
  const ready = log.lines().find(line => line.msg === 'ready') as LogLine;
  const [address] = ready.listen as string[];
  const owned = stack.move();
  return {
    program,
    port: Number(address.slice(address.lastIndexOf(':') + 1)),
    ready,
    metrics: String(ready.admin),
    ...log,
    async [Symbol.asyncDispose]() {
      // The second signal ends open connections. It is a different one: the kernel merges equal pending signals.
      program.signal('SIGINT');
      await owned.disposeAsync();
    },
  };
}

/** As for the gateway: `CAUSEWAY_TEST_ENGINE`, or the program's choice, as on HAProxy, which no agent runs on. */
function engineArgs(): string[] {
  const engine = process.env.CAUSEWAY_TEST_ENGINE;
  return engine === undefined || engine === 'haproxy' ? [] : ['--engine', engine];
}
