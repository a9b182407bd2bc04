// The contract of the I/O port: one suite that every adapter passes, since nothing above the port knows which one it
// runs on. The reactor under test has its own thread, because run() may block; the suite controls it by messages and
// connects to it through real sockets. The tests rely only on what reactor.ts promises.

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
