// Findings in the log: all of them when the file was edited, else only those that are new.

import type { Logger } from 'pino';
import type { Finding } from '../cluster/finding.ts';

export class FindingLog {
  readonly #log: Logger;
  #written: ReadonlySet<string> = new Set();

  constructor(log: Logger) {
    this.#log = log;
  }

  write(findings: readonly Finding[], which: 'all' | 'new'): void {
    const written = new Set<string>();
    for (const finding of findings) {
      const { cluster, origin, code, text } = finding;
      const key = JSON.stringify([cluster, origin?.source, origin?.object?.uid, code, text]);
      if (which === 'all' || !this.#written.has(key))
        this.#log[finding.severity === 'info' ? 'info' : 'warn'](finding, 'finding');
      written.add(key);
    }
    this.#written = written;
  }
}
