// What `--once` shows: claims about the demo, each tried. A proof answers with what it saw, or throws what was seen
// instead.

export interface Proof {
  readonly title: string;
  /** Answers a few words on what was seen. */
  prove(signal: AbortSignal): Promise<string>;
}

export interface Verdict {
  readonly title: string;
  readonly ok: boolean;
  /** What was seen. */
  readonly text: string;
}

/** Each has this long: one that hangs must not take the time of all others. */
const PROOF_MS = 8000;

/** One after the other, each told as soon as it is known. What is not through when the signal comes has failed. */
export async function* tryProofs(proofs: readonly Proof[], end: AbortSignal): AsyncGenerator<Verdict> {
  for (const { title, prove } of proofs) {
    const late = AbortSignal.timeout(PROOF_MS);
    try {
      end.throwIfAborted();
      yield { title, ok: true, text: await prove(AbortSignal.any([end, late])) };
    } catch (error) {
      const text = end.aborted ? 'there was no time left for it' : describe(error);
      yield { title, ok: false, text: late.aborted ? `nothing came of it in ${PROOF_MS} ms` : text };
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
