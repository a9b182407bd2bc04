// The demo on a terminal: starts it, prints the instructions or runs the proofs, ends it on a signal, and removes its
// files. demo.ts loads this file on demand, so that other commands do not load the demo's modules.

import { appsProofs } from '../demo/apps-proofs.ts';
import { Demo } from '../demo/demo.ts';
import { DemoFolder, FolderError } from '../demo/demo-folder.ts';
import { instructions } from '../demo/instructions.ts';
import { findKubectl, kubectlAt } from '../demo/kubectl.ts';
import { operationProofs } from '../demo/operation-proofs.ts';
import { tryProofs } from '../demo/proof.ts';
import { tlsProofs } from '../demo/tls-proofs.ts';
import { uplinkProofs } from '../demo/uplink-proofs.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { printable } from '../text/printable.ts';
import { exitForSure } from './exit-for-sure.ts';
import { type Log, openLog } from './log.ts';
import { machine } from './machine.ts';
import { painter, printError } from './terminal.ts';
import { version } from './version.ts';

const FAILED = 1;
const CANNOT_START = 2;
/** The proofs take about 4 s; this allows for a busy machine. */
const PROOFS_MS = 90_000;
/** Everything ends within a second; this, too, allows for a busy machine. */
const END_MS = 30_000;
/** Ctrl-C arrives from the terminal and again from npm, which forwards it: within this time both count as one. */
const ONE_SIGNAL_MS = 1000;
/** Between two changes of a cluster's pods: for a person who watches, and (hurried) for a proof that waits for one. */
const STEP_MS = 2500;
const HURRIED_STEP_MS = 400;

/**
 * Port 0 means any free port. Ends the process with the exit code, and does not wait for it to end by itself: a thread
 * that is stuck would keep it alive.
 */
export async function showDemo(once: boolean, port: number): Promise<never> {
  // Before any file is written: an early signal must not leave files behind.
  const interrupt = onSignal();
  await exitForSure();
  const code = await show(once, port, interrupt);
  // A terminal shows ^C: start a new line after it.
  const lineEnd = process.stdout.isTTY === true ? '\n' : '';
  if (interrupt.aborted) process.stdout.write(`${lineEnd}The demo has ended and ./demo-out was removed\n`);
  process.exit(code);
}

/** Call this before parts of the demo are ended: one that never does must not keep the process alive. */
function endForSure(code: number): void {
  const end = () => {
    const active = [...new Set(process.getActiveResourcesInfo())].join(', ');
    printError(`Parts of the demo have not ended within ${END_MS / 1000} s (active: ${active})`);
    process.exit(code);
  };
  setTimeout(end, END_MS).unref();
}

async function show(once: boolean, port: number, interrupt: AbortSignal): Promise<number> {
  try {
    using folder = DemoFolder.claim(process.cwd(), { pid: process.pid, isRunning });
    // Runs however the process ends, except by SIGKILL, and before exit-for-sure.ts ends it.
    process.prependOnceListener('exit', () => folder[Symbol.dispose]());
    const logs: Log[] = [];
    try {
      await using demo = await Demo.start({
        folder,
        port,
        adminPort: once ? 'any' : 'usual',
        stepMs: once ? HURRIED_STEP_MS : STEP_MS,
        openLog(settings, file) {
          const log = openLog({ ...settings, format: 'text' }, false, false, file);
          logs.push(log);
          return log.logger;
        },
        version: version(),
        host: machine(),
      });
      let code = FAILED;
      try {
        code = await play(demo, once, interrupt);
        return code;
      } finally {
        endForSure(code);
      }
    } finally {
      await Promise.all(logs.map(log => log.close()));
    }
  } catch (error) {
    if (!(error instanceof FolderError || error instanceof ListenError)) throw error;
    const hint = error instanceof ListenError ? `: causeway demo --port ${anotherPort(port)}` : '';
    printError(`${error.message}${hint}`);
    return CANNOT_START;
  }
}

/** Until it is to end. Returns the exit code. */
async function play(demo: Demo, once: boolean, interrupt: AbortSignal): Promise<number> {
  if (interrupt.aborted) return once ? FAILED : 0;
  if (once) return prove(demo, interrupt);
  await demo.startTraffic();
  process.stdout.write(instructions(demo, surroundings()));
  const ended = new Promise<void>(resolve => {
    interrupt.addEventListener('abort', () => resolve());
    if (interrupt.aborted) resolve();
  });
  await Promise.race([ended, demo.standIns.failed]);
  return 0;
}

/** Returns the exit code. */
async function prove(demo: Demo, interrupt: AbortSignal): Promise<number> {
  const paint = painter(process.stdout);
  const program = findKubectl(process.env.PATH ?? '');
  const kubectl =
    program === undefined ? undefined : kubectlAt(program, demo.folder.reserve('kubectl-cache'));
  const proofs = [
    ...tlsProofs(demo),
    ...uplinkProofs(demo, kubectl),
    ...appsProofs(demo),
    ...operationProofs(demo, kubectl),
  ];
  const width = Math.max(...proofs.map(({ title }) => title.length));
  const start = performance.now();
  let failed = 0;
  const end = AbortSignal.any([interrupt, AbortSignal.timeout(PROOFS_MS)]);
  for await (const { title, ok, text } of tryProofs(proofs, end)) {
    if (interrupt.aborted) return FAILED;
    if (!ok) failed++;
    const mark = ok ? paint('32', '✓') : paint('31', '✗');
    const reported = printable(text);
    process.stdout.write(`${mark} ${title.padEnd(width)}  ${ok ? paint('2', reported) : reported}\n`);
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const summary =
    failed === 0
      ? paint('32', `all ${proofs.length} passed in ${seconds} s`)
      : paint('31', `${failed} of ${proofs.length} failed`);
  process.stdout.write(`${summary}\n`);
  return failed === 0 ? 0 : FAILED;
}

function surroundings(): Parameters<typeof instructions>[1] {
  const { env } = process;
  const proxies = ['http_proxy', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'];
  return {
    kubectl: findKubectl(env.PATH ?? '') !== undefined,
    proxied: proxies.some(name => (env[name] ?? '') !== ''),
    paint: painter(process.stdout),
  };
}

/** The first signal ends the demo, a second one exits at once. */
function onSignal(): AbortSignal {
  const interrupt = new AbortController();
  let first: number | undefined;
  const stop = () => {
    first ??= performance.now();
    if (performance.now() - first < ONE_SIGNAL_MS) interrupt.abort();
    else process.exit(FAILED);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  return interrupt.signal;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs as another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function anotherPort(port: number): number {
  return port === 0 || port > 64_000 ? 7443 : port + 1000;
}
