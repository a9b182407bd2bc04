// `causeway demo`: three small clusters behind a gateway on this machine, and what to try. Signals, exit codes and the
// terminal; everything else is in src/demo.

import { appsProofs } from '../demo/apps-proofs.ts';
import { Demo } from '../demo/demo.ts';
import { DemoFolder, FolderError } from '../demo/demo-folder.ts';
import { instructions } from '../demo/instructions.ts';
import { findKubectl, kubectlAt } from '../demo/kubectl.ts';
import { operationProofs } from '../demo/operation-proofs.ts';
import { tryProofs } from '../demo/proof.ts';
import { tlsProofs } from '../demo/tls-proofs.ts';
import { ListenError } from '../gateway/listen-error.ts';
import { type Command, parse, UsageError } from './command.ts';
import { type Log, openLog } from './log.ts';
import { machine } from './machine.ts';
import { painter } from './terminal.ts';
import { version } from './version.ts';

const FAILED = 1;
const CANNOT_START = 2;
const DEFAULT_PORT = 6443;
/** Everything must be over in 15 s, the start and the end included. */
const PROOFS_MS = 12_000;
/** Ctrl-C comes from the terminal and again from npm, which hands it on: within this time it is one. */
const ONE_SIGNAL_MS = 1000;
/** Between two changes of a cluster's pods: for someone who looks on, and for a proof that waits for one. */
const STEP_MS = 2500;
const HURRIED_STEP_MS = 400;

const help = `causeway demo: three clusters behind one address on this machine, and what to try

  --port N   the gateway's port on 127.0.0.1; default ${DEFAULT_PORT}
  --once     takes any free port, proves every way in, prints a line with ✓ or ✗ for each, and ends

Starts stand-ins for three Kubernetes clusters on loopback, each with an authority of its own:
two API servers that a real kubectl can read and watch, konnectivity, and an ingress with a
page on https and http. In front of them is the gateway as run starts it, on one port, with
its dashboard on 127.0.0.1:9440 (or any port, where that is taken).

Prints commands to copy: kubectl where it is found, curl, and what to open in a browser. No
DNS is needed: curl gets the address by --resolve, kubectl by its kubeconfig, and browsers
take *.localhost to this machine.

Pods inside a cluster dial an address, without a server name. The agent that brings them to the
gateway is not in this version yet; the demo puts the cluster's id in a PROXY header itself.

Files go to ./demo-out (causeway.yaml, its log, kubeconfigs, CA certificates) and are removed at
the end. A ./demo-out that is not from a demo is left alone, and the demo does not start.

Exit codes: 0 ended by Ctrl-C or SIGTERM, or all ✓; 1 some ✗; 2 cannot start, as the port or
./demo-out is taken; 64 wrong usage.`;

export const demoCommand: Command = {
  name: 'demo',
  summary: 'three clusters behind one address on this machine, and what to try',
  help,
  run,
};

async function run(args: readonly string[]): Promise<number> {
  const { values } = parse('demo', args, { once: { type: 'boolean' }, port: { type: 'string' } });
  const once = values.once === true;
  const port = portFlag(values.port) ?? (once ? 0 : DEFAULT_PORT);
  // Before anything is there to be taken away: a signal that comes early must not leave it.
  const ended = untilSignal();
  try {
    using folder = DemoFolder.claim(process.cwd(), { pid: process.pid, isRunning });
    // Whatever way the process goes, other than by SIGKILL.
    process.once('exit', () => folder[Symbol.dispose]());
    let log: Log | undefined;
    try {
      await using demo = await Demo.start({
        folder,
        port,
        adminPort: once ? 'any' : 'usual',
        stepMs: once ? HURRIED_STEP_MS : STEP_MS,
        openLog(settings, file) {
          log = openLog({ ...settings, format: 'text' }, false, false, file);
          return log.logger;
        },
        version: version(),
        host: machine(),
      });
      if (once) return await Promise.race([prove(demo), ended.then(() => FAILED)]);
      await demo.startTraffic();
      process.stdout.write(instructions(demo, surroundings()));
      await ended;
      return 0;
    } finally {
      await log?.close();
    }
  } catch (error) {
    if (!(error instanceof FolderError || error instanceof ListenError)) throw error;
    const hint = error instanceof ListenError ? `: causeway demo --port ${anotherPort(port)}` : '';
    process.stderr.write(`${error.message}${hint}\n`);
    return CANNOT_START;
  }
}

/** Answers the exit code. */
async function prove(demo: Demo): Promise<number> {
  const paint = painter(process.stdout);
  const program = findKubectl(process.env.PATH ?? '');
  const kubectl =
    program === undefined ? undefined : kubectlAt(program, demo.folder.reserve('kubectl-cache'));
  const proofs = [...tlsProofs(demo), ...appsProofs(demo), ...operationProofs(demo, kubectl)];
  const width = Math.max(...proofs.map(({ title }) => title.length));
  const start = performance.now();
  let failed = 0;
  for await (const { title, ok, text } of tryProofs(proofs, AbortSignal.timeout(PROOFS_MS))) {
    if (!ok) failed++;
    const mark = ok ? paint('32', '✓') : paint('31', '✗');
    process.stdout.write(`${mark} ${title.padEnd(width)}  ${ok ? paint('2', text) : text}\n`);
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const end =
    failed === 0
      ? paint('32', `all ${proofs.length} work, shown in ${seconds} s`)
      : paint('31', `${failed} of ${proofs.length} do not work`);
  process.stdout.write(`${end}\n`);
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

/** The first signal ends the demo, a second one the process. */
function untilSignal(): Promise<void> {
  return new Promise(resolve => {
    let first: number | undefined;
    const stop = () => {
      first ??= performance.now();
      if (performance.now() - first < ONE_SIGNAL_MS) resolve();
      else process.exit(FAILED);
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  });
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It runs and belongs to someone else.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function portFlag(flag: string | undefined): number | undefined {
  if (flag === undefined) return undefined;
  const port = Number(flag);
  if (!/^\d+$/.test(flag) || port < 1 || port > 65_535) {
    throw new UsageError(`--port must be a number from 1 to 65535: ${flag}`);
  }
  return port;
}

function anotherPort(port: number): number {
  return port === 0 || port > 64_000 ? 7443 : port + 1000;
}
