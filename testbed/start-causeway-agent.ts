// Starts `causeway agent` as a user would, on a host of a tenant, with the log read back:
// `await using agent = await startCausewayAgent({ clusterId: 'a', gateway: 'api.a.test:6443', on: ':6443', netns })`.

import { flag } from './flag.ts';
import { type LogLines, logLines } from './log-lines.ts';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';
import { causewayBin } from './start-causeway.ts';
import { tempDir } from './temp-dir.ts';

/** Under a second, where no API servers are starting at the same time. */
const READY_TIMEOUT_MS = 60_000;

export interface CausewayAgentOptions {
  readonly clusterId: string;
  /** `host:port`. */
  readonly gateway: string;
  /** Where that host is. Default: the host looks it up. */
  readonly gatewayAddress?: string;
  /** Default proxy. */
  readonly uplink?: string;
  readonly on: string;
  readonly keyFile?: string;
  readonly flags?: readonly string[];
  readonly netns?: Netns;
}

export interface CausewayAgent extends Program, LogLines {}

/** Starts an agent, and settles when it listens, whether or not there is a gateway. */
export async function startCausewayAgent(options: CausewayAgentOptions): Promise<CausewayAgent> {
  const { clusterId, gateway, gatewayAddress, uplink = 'proxy', on, keyFile, flags = [], netns } = options;
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const program = stack.use(
    await startProgram({
      command: causewayBin,
      args: [
        'agent',
        ...flag('--cluster-id', clusterId),
        ...flag('--gateway', gateway),
        ...flag('--gateway-address', gatewayAddress),
        ...flag('--uplink', uplink),
        ...flag('--on', on),
        ...flag('--key-file', keyFile),
        ...flags,
      ],
      // One that is killed leaves its own folder of sockets behind.
      env: { TMPDIR: dir.path },
      netns,
      ready: { log: /"msg":"ready"/ },
      readyTimeoutMs: READY_TIMEOUT_MS,
    }),
  );
  const owned = stack.move();
  return {
    ...program,
    ...logLines(program),
    async [Symbol.asyncDispose]() {
      // Open tunnels need not finish: the second signal ends them. It is another one, since the kernel makes one of
      // two alike that are pending.
      program.signal('SIGINT');
      await owned.disposeAsync();
    },
  };
}
