// `causeway run`: runs the gateway as a process. This file handles flags, exit codes and the log; lifetime.ts handles
// signals, and the controller does everything else.

import { resolve } from 'node:path';
import { type Config, engines } from '../config/config.ts';
import { ConfigReader } from '../config/config-reader.ts';
import { ConfigError } from '../controller/config-error.ts';
import { Controller } from '../controller/controller.ts';
import { loadConfig, type Overrides } from '../controller/load-config.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { StartError } from '../gateway/control/start-error.ts';
import { HaproxyError } from '../haproxy/haproxy-program.ts';
import { ReplaceError } from '../replacement/replace-error.ts';
import { RunDirError } from '../replacement/run-dir.ts';
import { type Command, configFile, parse, UsageError } from './command.ts';
import { givenSockets } from './given-sockets.ts';
import { Lifetime } from './lifetime.ts';
import { type Log, openLog } from './log.ts';
import { machine } from './machine.ts';
import { openReplacement } from './open-replacement.ts';
import { coloured, printError } from './terminal.ts';
import { version } from './version.ts';

const BAD_CONFIG = 1;
const CANNOT_LISTEN = 2;

const help = `causeway run [FILE]: Serve a config file

  FILE                 The same as -c FILE
  -c, --config FILE    The file to serve (default: causeway.yaml)
  --engine ENGINE      auto, epoll, net or haproxy; overrides engine in the file
  --workers N          Worker threads, or auto for one per core; overrides workers in the file
  --replace            Take over from the running gateway with the same runDir: it stops accepting
                       once this one serves, and drains. No connection is refused or reset
  --run-dir DIR        Private sockets of this process; overrides runDir in the file

The file is watched. A valid edit takes effect within a second and does not disturb open
connections, except those whose route is gone or whose client is no longer allowed. An invalid
edit is refused as a whole and logged with positions; the old table keeps serving.

Signals
  SIGHUP               Reread the file
  SIGTERM, SIGINT      Drain: readyz fails at once, accepting stops after timeouts.drainDelay,
                       and open connections may finish within timeouts.drain
  second signal        Exit now

The log goes to stdout: JSON lines, or text on a terminal. The line "ready" has the actual
addresses. healthz, readyz, metrics, the API and the dashboard are on http://127.0.0.1:9440
unless admin.on says otherwise.

Exit codes: 0 after a drain; 1 bad config; 2 cannot listen (another process may be listening
there), start or replace; 64 wrong usage; 70 internal fault: restart it.`;

export const runCommand: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse(
    'run',
    args,
    {
      config: { type: 'string', short: 'c' },
      engine: { type: 'string' },
      workers: { type: 'string' },
      replace: { type: 'boolean' },
      'run-dir': { type: 'string' },
    },
    true,
  );
  const file = configFile('run', values.config, positionals);
  const overrides = {
    ...engineFlag(values.engine),
    ...workersFlag(values.workers),
    ...(values['run-dir'] !== undefined && { runDir: resolve(values['run-dir']) }),
  };
  const lifetime = await Lifetime.begin();
  return lifetime.exit(await serve(lifetime, file, overrides, values.replace === true));
}

/** Returns the exit code. */
async function serve(
  lifetime: Lifetime,
  file: string,
  overrides: Overrides,
  isReplacement: boolean,
): Promise<number> {
  try {
    const readAt = Date.now();
    const reader = new ConfigReader(file);
    const { config } = await loadConfig(file, overrides, reader);
    const log = openLog(config.log, process.stdout.isTTY === true, coloured(process.stdout));
    lifetime.use(log);
    const { logger, use: useLog, countDropped } = log;
    const host = machine();
    await lifetime.serve(
      async () => {
        const replacement = await openReplacement(file, config, host, isReplacement, logger);
        const sockets = await givenSockets(process.env, process.pid);
        return Controller.start({
          file,
          config,
          readAt,
          overrides,
          reader,
          log: logger,
          useLog,
          countDropped,
          version: version(),
          host,
          environment: process.env,
          replacement,
          givenSockets: sockets,
          beforeTakeOver: () => lifetime.becomeMain(),
        });
      },
      controller => logReady(controller, log),
    );
    return 0;
  } catch (error) {
    if (!mistakes.some(kind => error instanceof kind)) throw error;
    printError(...(error instanceof ConfigError ? error.lines : [(error as Error).message]));
    return error instanceof ConfigError ? BAD_CONFIG : CANNOT_LISTEN;
  }
}

/** Errors that the operator must fix; anything else is a fault of ours. */
const mistakes = [ConfigError, HaproxyError, ListenError, StartError, ReplaceError, RunDirError] as const;

function logReady(controller: Controller, { logger }: Log): void {
  const { version: running, engine, workers, listeners, counts } = controller.view.status();
  const { clusters, routes, hosts } = counts;
  logger.info(
    {
      version: running,
      listen: listeners.map(({ address }) => address),
      admin: controller.adminUrl,
      ...(controller.dns.length > 0 && { dns: controller.dns }),
      replaced: controller.replaced,
      engine,
      workers,
      clusters,
      routes,
      hosts,
    },
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
