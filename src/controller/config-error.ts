// Thrown when the file cannot be served. The message has one line per mistake, with positions.

export class ConfigError extends Error {
  readonly code = 'ERR_CONFIG';
  /** One line per mistake. */
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(lines.join('\n'));
    this.name = 'ConfigError';
    this.lines = lines;
  }
}
