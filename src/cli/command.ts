// What a command of `causeway` is, and how its arguments are read.

import { type ParseArgsConfig, parseArgs } from 'node:util';

export interface Command {
  readonly name: string;
  /** One line, for the overview. */
  readonly summary: string;
  /** The whole help, without a trailing newline. */
  readonly help: string;
  /** Answers the exit code. */
  run(args: readonly string[]): Promise<number>;
}

/** Answered with exit code 64 and one sentence, or one for each mistake. */
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

/** parseArgs(), with its errors as wrong usage. */
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

/** The file of `-c` or, where a command takes one, of an argument; else causeway.yaml in this directory. */
export function configFile(
  command: string,
  flag: string | undefined,
  positionals: readonly string[] = [],
): string {
  const named = [...(flag === undefined ? [] : [flag]), ...positionals];
  if (named.length > 1 || named[0] === '') {
    throw new UsageError(`Name one file: causeway ${command} -c ${DEFAULT_FILE}`);
  }
  return named[0] ?? DEFAULT_FILE;
}
