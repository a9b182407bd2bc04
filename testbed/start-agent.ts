// Starts `causeway agent` as a user would, in a process of its own, with the log read back:
// `await using agent = await startAgent({ uplink: 'proxy', gateway: '127.0.0.1:6443', id: 'a-1' })`.

import { setTimeout as delay } from 'node:timers/promises';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';
import { causewayBin, type LogLine } from './start-causeway.ts';

export interface AgentOptions {
  readonly uplink: 'proxy' | 'connect' | 'tunnel' | 'terminate';
  /** `host:port`. */
  readonly gateway: string;
  readonly id: string;
  /** Default 127.0.0.1 and any free port. */
  readonly on?: string;
  /** Further flags. */
  readonly args?: readonly string[];
  /** In place of all flags. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly netns?: Netns;
}

export interface RunningAgent extends AsyncDisposable {
  readonly program: Program;
  readonly port: number;
  readonly ready: LogLine;
  /** Where its metrics are. */
  readonly metrics: string;
  lines(): LogLine[];
  /** The first line, past or to come, that fits. */
  line(fits: (line: LogLine) => boolean, timeoutMs?: number): Promise<LogLine>;
}

export async function startAgent(options: AgentOptions): Promise<RunningAgent> {
  const { uplink, gateway, id, on = '127.0.0.1:0', args = [], environment, netns } = options;
  const flags = ['--cluster-id', id, '--gateway', gateway, '--uplink', uplink, '--on', on, ...engineArgs()];
  const program = await startProgram({
    command: causewayBin,
    args: ['agent', ...(environment === undefined ? [...flags, ...args] : args)],
    ...(environment !== undefined && { env: environment }),
    netns,
    ready: { log: /"msg":"ready"/ },
    stopSignal: 'SIGTERM',
  });
  const lines = () =>
    program
      .log()
      .split('\n')
      .filter(line => line.startsWith('{') && line.endsWith('}'))
      .map(line => JSON.parse(line) as LogLine);
  const ready = lines().find(line => line.msg === 'ready') as LogLine;
  const [address] = ready.listen as string[];
  return {
    program,
    port: Number(address.slice(address.lastIndexOf(':') + 1)),
    ready,
    metrics: String(ready.admin),
    lines,
    async line(fits, timeoutMs = 10_000) {
      const deadline = performance.now() + timeoutMs;
      for (;;) {
        const found = lines().find(fits);
        if (found !== undefined) return found;
        if (performance.now() > deadline)
          throw new Error(`No such log line within ${timeoutMs} ms:\n${program.log()}`);
        await delay(20);
      }
    },
    async [Symbol.asyncDispose]() {
      // The second signal ends what is open; it is another one, since the kernel makes one of two alike.
      program.signal('SIGINT');
      await program.stop();
    },
  };
}

/** As the gateway's: `CAUSEWAY_TEST_ENGINE` says which, else the program decides. */
function engineArgs(): string[] {
  const engine = process.env.CAUSEWAY_TEST_ENGINE;
  return engine === undefined ? [] : ['--engine', engine];
}
