// The contract of the I/O port: one suite that every adapter passes, for nothing above the port knows which one it
// runs on. The reactor under test has a thread of its own, for its run() may block; the suite tells it by message
// what to do, and talks to it from outside through real sockets. Only what reactor.ts promises is relied on.

import { connectingContract } from './contract/connecting.ts';
import { endingContract } from './contract/ending.ts';
import { flowingContract } from './contract/flowing.ts';
import { lendingContract } from './contract/lending.ts';
import { listeningContract } from './contract/listening.ts';
import type { Adapter } from './contract/reactor-thread.ts';
import { stallingContract } from './contract/stalling.ts';
import { turningContract } from './contract/turning.ts';

/** Registers the suite's tests for that adapter. */
export function reactorContract(adapter: Adapter): void {
  listeningContract(adapter);
  connectingContract(adapter);
  flowingContract(adapter);
  endingContract(adapter);
  lendingContract(adapter);
  stallingContract(adapter);
  turningContract(adapter);
}
