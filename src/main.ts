// argv → command, nothing else.

import { flushCompileCache } from 'node:module';

/** By then a command that goes on has loaded all it needs. */
const COMPILED_BY_MS = 3000;

// By default SIGUSR1 opens Node's inspector, which lets any local user run code in this process, and SIGUSR2 ends the
// process. Every command ignores both, and does so before loading the rest, which takes a moment.
for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {});

// bin/causeway has Node keep what it compiles. A normal exit writes that to disk, but `run` ends in another way.
setTimeout(flushCompileCache, COMPILED_BY_MS).unref();

const { runCli } = await import('./cli/cli.ts');
process.exitCode = await runCli(process.argv.slice(2));
