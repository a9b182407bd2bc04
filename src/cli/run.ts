// `causeway run`: the gateway as a process. Signals, exit codes and the log; everything else is the controller's.

import { type Config, engines } from '../config/config.ts';
import { ConfigError } from '../controller/config-error.ts';
import { Controller, type ControllerOptions } from '../controller/controller.ts';
import { loadConfig } from '../controller/load-config.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { type Command, parse, requireFile, UsageError } from './command.ts';
import { type Log, openLog } from './log.ts';
import { machine } from './machine.ts';
import { coloured } from './terminal.ts';
import { version } from './version.ts';

const BAD_CONFIG = 1;
const CANNOT_LISTEN = 2;

const help = `causeway run -c FILE: serves the file

  -c, --config FILE   causeway.yaml
  --engine ENGINE     auto, epoll or net; overrides the file's engine
  --workers N         worker threads, or auto for one per core; overrides the file's workers

The file is watched: a good edit is served within a second and disturbs nothing that is
open; a bad one is refused as a whole and logged with positions, and the old table keeps
serving. What is no longer allowed, or whose route is gone, is cut.

Signals
  SIGHUP              reads the file again
  SIGTERM, SIGINT     drains: readyz fails at once, after timeouts.drainDelay nothing more is
                      accepted, open connections may finish within timeouts.drain
  the second one      ends now

The log goes to stdout: JSON lines, or text on a terminal. The line "ready" carries the real
addresses. healthz, readyz, metrics and the API are on http://127.0.0.1:9440 (admin.on).

Exit codes: 0 after a drain; 1 bad config; 2 cannot listen, also when another process already
listens there; 64 wrong usage.`;

export const runCommand: Command = { name: 'run', summary: 'serves the file', help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values } = parse('run', args, {
    config: { type: 'string', short: 'c' },
    engine: { type: 'string' },
    workers: { type: 'string' },
  });
  const file = requireFile('run', values.config);
  const overrides = { ...engineFlag(values.engine), ...workersFlag(values.workers) };
  const signals = takeSignals();
  let log: Log | undefined;
  try {
    const readAt = Date.now();
    const { config } = await loadConfig(file, overrides);
    log = openLog(config.log, process.stdout.isTTY === true, coloured(process.stdout));
    await serve({ file, config, readAt, overrides }, log, signals);
    return 0;
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof ListenError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return error instanceof ConfigError ? BAD_CONFIG : CANNOT_LISTEN;
  } finally {
    await log?.close();
  }
}

async function serve(
  what: Pick<ControllerOptions, 'file' | 'config' | 'readAt' | 'overrides'>,
  { logger, use }: Log,
  signals: Signals,
): Promise<void> {
  await using controller = await Controller.start({
    ...what,
    log: logger,
    useLog: use,
    version: version(),
    host: machine(),
  });
  const ended = untilEnded(controller, signals);
  const { engine, workers, listeners } = controller.status();
  logger.info(
    { listen: listeners.map(({ address }) => address), admin: controller.adminUrl, engine, workers },
    'ready',
  );
  await ended;
}

interface Signals {
  reload(): void;
  stop(): void;
}

/**
 * From the first moment on: the kernel gives the first process of a container only those signals that it handles. Until
 * something is served there is nothing to drain, and the file is about to be read.
 */
function takeSignals(): Signals {
  const signals: Signals = { reload: () => {}, stop: () => process.exit(0) };
  process.on('SIGTERM', () => signals.stop());
  process.on('SIGINT', () => signals.stop());
  process.on('SIGHUP', () => signals.reload());
  return signals;
}

/** Resolves when a drain is over, which a signal or the admin side began, or on the second signal. */
function untilEnded(controller: Controller, signals: Signals): Promise<void> {
  signals.reload = () => void controller.reload();
  return new Promise((resolve, reject) => {
    controller.drained.then(resolve, reject);
    signals.stop = () => {
      // Also after a drain began over HTTP: a preStop hook may ask for it, and the signal follows at once.
      signals.stop = resolve;
      controller.drain().catch(reject);
    };
  });
}

function engineFlag(flag: string | undefined): { engine?: Config['engine'] } {
  if (flag === undefined) return {};
  const engine = engines.find(candidate => candidate === flag);
  if (engine === undefined) throw new UsageError(`--engine must be one of ${engines.join(', ')}: ${flag}`);
  return { engine };
}

function workersFlag(flag: string | undefined): { workers?: Config['workers'] } {
  if (flag === undefined) return {};
  if (flag === 'auto') return { workers: flag };
  const workers = Number(flag);
  if (!Number.isInteger(workers) || workers < 1 || workers > 1024) {
    throw new UsageError(`--workers must be auto or a number from 1 to 1024: ${flag}`);
  }
  return { workers };
}
