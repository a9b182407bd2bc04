// The contract of the source port: one suite that every source passes. A source brings a `SourceWorld`: the place that it
// reads, and how to change and break it. Sources in Kubernetes get theirs from kubeWorld().

import { serverContract } from './contract/server.ts';
import type { StartWorld } from './contract/source-world.ts';
import { watchingContract } from './contract/watching.ts';

/** Registers the suite's tests for that source. Without a server, only the part that needs none. */
export function sourceContract(name: string, start: StartWorld, { server = true } = {}): void {
  watchingContract(name, start);
  if (server) serverContract(name, start);
}
