// Findings in the log: all of them when the file was edited, else only those that are new. Those of objects are bounded,
// since tenants can provoke them.

import type { Logger } from 'pino';
import type { Finding } from '../cluster/finding.ts';
import { LineBudget } from '../gateway/line-budget.ts';

export class FindingLog {
  readonly #log: Logger;
  readonly #budget: LineBudget;
  #written: ReadonlySet<string> = new Set();

  constructor(log: Logger, now?: () => number) {
    this.#log = log;
    this.#budget = new LineBudget(now);
  }

  write(findings: readonly Finding[], which: 'all' | 'new'): void {
    const written = new Set<string>();
    for (const finding of findings) {
      const { cluster, origin, code, text } = finding;
      const key = JSON.stringify([cluster, origin?.source, origin?.object?.uid, code, text]);
      if (which === 'all' || !this.#written.has(key)) this.#line(finding);
      written.add(key);
    }
    this.#written = written;
  }

  #line(finding: Finding): void {
    const suppressed = finding.origin === undefined ? 0 : this.#budget.take();
    if (suppressed === undefined) return;
    const level = finding.severity === 'info' ? 'info' : 'warn';
    this.#log[level]({ ...finding, ...(suppressed > 0 && { suppressed }) }, 'finding');
  }
}
