// The proofs of `--once`: claims about the demo, each tested. A proof returns what it saw, or throws what it saw
// instead.

export interface Proof {
  readonly title: string;
  /** Returns a short description of what was seen. */
  prove(signal: AbortSignal): Promise<string>;
}

export interface Verdict {
  readonly title: string;
  readonly ok: boolean;
  /** What was seen. */
  readonly text: string;
}

/** Deadline per proof: one that hangs must not take the time of the others. */
const PROOF_MS = 8000;

/** Runs the proofs in order and yields each verdict at once. Proofs that are not done when `end` aborts have failed. */
export async function* tryProofs(proofs: readonly Proof[], end: AbortSignal): AsyncGenerator<Verdict> {
  for (const { title, prove } of proofs) {
    const late = AbortSignal.timeout(PROOF_MS);
    try {
      end.throwIfAborted();
      yield { title, ok: true, text: await prove(AbortSignal.any([end, late])) };
    } catch (error) {
      const text = end.aborted ? 'no time left' : describe(error);
      yield { title, ok: false, text: late.aborted ? `no result within ${PROOF_MS} ms` : text };
    }
  }
}

export function expect(ok: boolean, otherwise: string): asserts ok {
  if (!ok) throw new Error(otherwise);
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [line] = error.message.split('\n');
  return line === '' ? error.name : line;
}
