// The calls of one user to an API server, counted from its audit log: metrics have no users.

import { open, writeFile } from 'node:fs/promises';
import type { TempDir } from '../../testbed/temp-dir.ts';

interface AuditLine {
  readonly stage: string;
  readonly verb: string;
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string };
  readonly responseStatus?: { readonly code?: number };
  readonly requestReceivedTimestamp: string;
}

export interface Calls {
  /** `patch ingresses` → count. */
  readonly byKind: ReadonlyMap<string, number>;
  /** Answers that say no, by call and status: `get ingresses 404`. */
  readonly refused: ReadonlyMap<string, number>;
  /** Without renewals of the lease. */
  readonly writes: number;
  /** When the API server got the last of these writes. */
  readonly lastWriteAt: number | undefined;
}

const READS: ReadonlySet<string> = new Set(['get', 'list', 'watch']);

export class AuditCalls {
  readonly #file: string;
  #offset = 0;

  private constructor(file: string) {
    this.#file = file;
  }

  /** Resolves to the flags for the API server, too. */
  static async prepare(dir: TempDir, user: string): Promise<readonly [AuditCalls, readonly string[]]> {
    const policy = {
      apiVersion: 'audit.k8s.io/v1',
      kind: 'Policy',
      omitStages: ['RequestReceived'],
      rules: [{ level: 'Metadata', users: [user] }, { level: 'None' }],
    };
    await writeFile(dir.file('policy.yaml'), JSON.stringify(policy));
    const file = dir.file('audit.log');
    await writeFile(file, '');
    return [
      new AuditCalls(file),
      [`--audit-policy-file=${dir.file('policy.yaml')}`, `--audit-log-path=${file}`],
    ];
  }

  /** Those since the last look. Calls count when they are answered, watches when they begin. */
  async take(): Promise<Calls> {
    const byKind = new Map<string, number>();
    const refused = new Map<string, number>();
    let writes = 0;
    let lastWriteAt: number | undefined;
    for (const line of await this.#lines()) {
      const { stage, verb, objectRef, responseStatus, requestReceivedTimestamp } = JSON.parse(
        line,
      ) as AuditLine;
      if (stage !== (verb === 'watch' ? 'ResponseStarted' : 'ResponseComplete')) continue;
      const { resource = 'discovery', subresource } = objectRef ?? {};
      const kind = `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`;
      add(byKind, kind);
      const { code = 0 } = responseStatus ?? {};
      if (code >= 400) add(refused, `${kind} ${code}`);
      if (READS.has(verb) || resource === 'leases') continue;
      writes++;
      lastWriteAt = Math.max(lastWriteAt ?? 0, Date.parse(requestReceivedTimestamp));
    }
    return { byKind, refused, writes, lastWriteAt };
  }

  async #lines(): Promise<readonly string[]> {
    await using handle = await open(this.#file);
    const { size } = await handle.stat();
    const buffer = Buffer.alloc(size - this.#offset);
    await handle.read(buffer, 0, buffer.length, this.#offset);
    const end = buffer.lastIndexOf('\n') + 1;
    this.#offset += end;
    return buffer.toString('utf8', 0, end).split('\n').filter(Boolean);
  }
}

/** `get 12, list 20, …` and a line for each resource. */
export function describeCalls({ byKind, refused }: Calls): string {
  const byVerb = new Map<string, number>();
  for (const [kind, count] of byKind) add(byVerb, kind.slice(0, kind.indexOf(' ')), count);
  return [textOf(byVerb), textOf(byKind), refused.size > 0 ? `refused: ${textOf(refused)}` : '']
    .filter(Boolean)
    .map(line => `  ${line}`)
    .join('\n');
}

function textOf(counts: ReadonlyMap<string, number>): string {
  const sorted = [...counts].toSorted(([, a], [, b]) => b - a);
  return sorted.map(([kind, count]) => `${kind} ${count}`).join(', ');
}

function add(counts: Map<string, number>, key: string, count = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + count);
}
