// The file cannot be served as it stands. The message has one line per mistake, with positions.

export class ConfigError extends Error {
  readonly code = 'ERR_CONFIG';
  /** Each mistake by itself. */
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(lines.join('\n'));
    this.name = 'ConfigError';
    this.lines = lines;
  }
}
