// argv → command, nothing else.

// By default SIGUSR1 opens Node's inspector, which lets any local user run code in this process, and SIGUSR2 ends the
// process. Every command ignores both, and does so before loading the rest, which takes a moment.
for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {});

const { runCli } = await import('./cli/cli.ts');
process.exitCode = await runCli(process.argv.slice(2));
