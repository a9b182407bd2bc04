// Dispatches to the command and reports wrong usage. Each command has its own file beside this one.

import { nearest } from '../text/nearest.ts';
import { type Command, UsageError } from './command.ts';
import { commands } from './commands.ts';
import { helpFor, overview } from './help.ts';
import { printError } from './terminal.ts';
import { version } from './version.ts';

/** sysexits.h EX_USAGE. */
const WRONG_USAGE = 64;

/** Returns the exit code. */
export async function runCli(args: readonly string[]): Promise<number> {
  const [first, ...rest] = args;
  try {
    switch (first) {
      case 'version':
      case '--version':
      case '-v':
      case '-V':
        nothingMore(first, rest);
        process.stdout.write(`causeway ${version()}\n`);
        return 0;
      case undefined:
        process.stderr.write(overview(commands));
        return WRONG_USAGE;
      case 'help':
      case '--help':
      case '-h':
        nothingMore(`${first} ${rest[0]}`, rest.slice(1));
        process.stdout.write(isCommand(rest[0]) ? helpFor(await load(rest[0])) : overview(commands));
        return 0;
      default: {
        const command = await load(first);
        if (rest.includes('--help') || rest.includes('-h')) {
          process.stdout.write(helpFor(command));
          return 0;
        }
        return await command.run(rest);
      }
    }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const [first, ...others] = error.sentences;
    printError(`causeway: ${first}`, ...others.map(sentence => `          ${sentence}`));
    return WRONG_USAGE;
  }
}

/** `help` and `version` have no help page. */
function isCommand(name: string | undefined): name is string {
  return name !== undefined && name !== 'help' && name !== 'version';
}

function nothingMore(after: string, rest: readonly string[]): void {
  if (rest.length > 0) throw new UsageError(`'causeway ${after}' takes no further arguments: ${rest[0]}`);
}

async function load(name: string): Promise<Command> {
  const command = commands.find(candidate => candidate.name === name);
  if (command !== undefined) return command.load();
  const near = nearest(name, [...commands.map(candidate => candidate.name), 'help', 'version']);
  const hint = near === undefined ? '' : ` Did you mean '${near}'?`;
  throw new UsageError(`Unknown command '${name}'.${hint} See 'causeway help'`);
}
