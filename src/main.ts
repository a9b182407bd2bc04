// argv → command, nothing else.

// By default SIGUSR1 opens Node's inspector, through which anyone on the machine could run code in here, and SIGUSR2
// ends the process. Neither does anything, in any command: before the rest is even loaded, which takes a moment.
for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {});

const { runCli } = await import('./cli/cli.ts');
process.exitCode = await runCli(process.argv.slice(2));
