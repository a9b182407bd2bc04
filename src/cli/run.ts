// `causeway run`: the gateway as a process. Flags, exit codes and the log; signals are lifetime.ts's, everything else is
// the controller's.

import { type Config, engines } from '../config/config.ts';
import { ConfigError } from '../controller/config-error.ts';
import { Controller } from '../controller/controller.ts';
import { loadConfig, type Overrides } from '../controller/load-config.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { StartError } from '../gateway/control/start-error.ts';
import { type Command, parse, requireFile, UsageError } from './command.ts';
import { Lifetime } from './lifetime.ts';
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

Exit codes: 0 after a drain; 1 bad config; 2 cannot listen or start, also when another process
already listens there; 64 wrong usage; 70 a fault of causeway itself, to be started again.`;

export const runCommand: Command = { name: 'run', summary: 'serves the file', help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values } = parse('run', args, {
    config: { type: 'string', short: 'c' },
    engine: { type: 'string' },
    workers: { type: 'string' },
  });
  const file = requireFile('run', values.config);
  const overrides = { ...engineFlag(values.engine), ...workersFlag(values.workers) };
  const lifetime = await Lifetime.begin();
  return lifetime.exit(await serve(lifetime, file, overrides));
}

/** Answers the exit code. */
async function serve(lifetime: Lifetime, file: string, overrides: Overrides): Promise<number> {
  try {
    const readAt = Date.now();
    const { config } = await loadConfig(file, overrides);
    const log = openLog(config.log, process.stdout.isTTY === true, coloured(process.stdout));
    lifetime.use(log);
    const options = { file, config, readAt, overrides, log: log.logger, useLog: log.use };
    await lifetime.serve(
      () => Controller.start({ ...options, version: version(), host: machine() }),
      controller => sayReady(controller, log),
    );
    return 0;
  } catch (error) {
    if (!mistakes.some(kind => error instanceof kind)) throw error;
    process.stderr.write(`${(error as Error).message}\n`);
    return error instanceof ConfigError ? BAD_CONFIG : CANNOT_LISTEN;
  }
}

/** What a person must change. */
const mistakes = [ConfigError, ListenError, StartError] as const;

function sayReady(controller: Controller, { logger }: Log): void {
  const { engine, workers, listeners } = controller.status();
  logger.info(
    { listen: listeners.map(({ address }) => address), admin: controller.adminUrl, engine, workers },
    'ready',
  );
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
