// The interface of a `causeway` command, and the parsing of its arguments. commands.ts lists them.

import { type ParseArgsConfig, parseArgs } from 'node:util';

export interface Command {
  /** The complete help text, without a trailing newline. */
  readonly help: string;
  /** Returns the exit code. */
  run(args: readonly string[]): Promise<number>;
}

/** Ends the program with exit code 64 and one sentence, or one per mistake. */
export class UsageError extends Error {
  readonly code = 'ERR_USAGE';
  readonly sentences: readonly string[];

  constructor(message: string | readonly string[], options?: ErrorOptions) {
    const sentences = typeof message === 'string' ? [message] : message;
    super(sentences.join('\n'), options);
    this.name = 'UsageError';
    this.sentences = sentences;
  }
}

/** parseArgs() that throws a UsageError. */
export function parse<Options extends NonNullable<ParseArgsConfig['options']>>(
  command: string,
  args: readonly string[],
  options: Options,
  allowPositionals = false,
): ReturnType<typeof parseArgs<{ options: Options; allowPositionals: boolean }>> {
  try {
    return parseArgs({ args: [...args], options, allowPositionals });
  } catch (error) {
    const message = error instanceof Error ? error.message.replace(/\. .*/s, '') : String(error);
    throw new UsageError(`${message}. See 'causeway help ${command}'`, { cause: error });
  }
}

const DEFAULT_FILE = 'causeway.yaml';

/** The file given with `-c` or as an argument; otherwise causeway.yaml in the current directory. */
export function configFile(
  command: string,
  flag: string | undefined,
  positionals: readonly string[] = [],
): string {
  const named = [...(flag === undefined ? [] : [flag]), ...positionals];
  if (named.length > 1 || named[0] === '') {
    throw new UsageError(`Give exactly one file: causeway ${command} -c ${DEFAULT_FILE}`);
  }
  return named[0] ?? DEFAULT_FILE;
}
