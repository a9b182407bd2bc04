// How large the JavaScript heaps of the threads may become. Young objects are where a heap grows without need: V8 would
// give each thread up to 96 MiB for them, although few objects of ours live long.

import type { ResourceLimits } from 'node:worker_threads';

/** By kind of thread. Old objects are bounded only where nothing grows with the table as a worker's does. */
export const threadHeaps = {
  worker: { maxYoungGenerationSizeMb: 12 },
  stream: { maxYoungGenerationSizeMb: 24 },
  /** 100,000 backends take a tenth of this. */
  health: { maxYoungGenerationSizeMb: 3, maxOldGenerationSizeMb: 1024 },
} as const satisfies Readonly<Record<string, ResourceLimits>>;
