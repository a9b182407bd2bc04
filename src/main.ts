// argv → command, nothing else.

import { setFlagsFromString } from 'node:v8';

// By default SIGUSR1 opens Node's inspector, which lets any local user run code in this process, and SIGUSR2 ends the
// process. Every command ignores both, and does so before loading the rest, which takes a moment.
for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {});

// bin/causeway bounds young objects for the control thread, which allocates little. Other threads have bounds of their
// own (thread-heaps.ts), over which the flag would win.
setFlagsFromString('--max-semi-space-size=0');

const { runCli } = await import('./cli/cli.ts');
process.exitCode = await runCli(process.argv.slice(2));
