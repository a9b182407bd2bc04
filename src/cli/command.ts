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

/** Answered with one sentence and exit code 64. */
export class UsageError extends Error {
  readonly code = 'ERR_USAGE';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UsageError';
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

/** The file is the one thing that every command needs. */
export function requireFile(command: string, file: string | undefined): string {
  if (file !== undefined && file !== '') return file;
  throw new UsageError(`Name the file: causeway ${command} -c causeway.yaml`);
}
