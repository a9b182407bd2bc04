// Close reasons in words. docs/close-reasons.md says more; a test keeps the set complete.

/** served: it did its work; left, cut: by whom it ended; refused: not let in; failed: no backend took it, or we did. */
export type ReasonKind = 'served' | 'left' | 'cut' | 'refused' | 'failed';

interface ReasonWords {
  readonly kind: ReasonKind;
  readonly text: string;
}

export const reasonWords: Readonly<Record<string, ReasonWords>> = {
  done: { kind: 'served', text: 'Both sides finished' },
  'client-reset': { kind: 'served', text: 'The client reset the connection' },
  'backend-reset': { kind: 'failed', text: 'The backend reset the connection' },
  'idle-timeout': { kind: 'cut', text: 'No byte moved for longer than the idle time-out' },
  'half-closed-timeout': { kind: 'cut', text: 'One side finished and the other stayed silent' },
  drained: { kind: 'cut', text: 'Still open when the time to drain ran out' },
  revoked: { kind: 'cut', text: 'Ended by an edit of the file or by an admin: no longer allowed' },
  'no-data': { kind: 'left', text: 'The client left without sending a byte' },
  'client-gone': { kind: 'left', text: 'The client left before a backend was reached' },
  'not-recognized': { kind: 'refused', text: 'Neither TLS, PROXY, CONNECT nor HTTP' },
  'hello-timeout': { kind: 'refused', text: 'The client said nothing complete in time' },
  'bad-hello': { kind: 'refused', text: 'Begins like TLS and is not a ClientHello' },
  'no-sni': { kind: 'refused', text: 'TLS without a server name, and no cluster id' },
  'unknown-host': { kind: 'refused', text: 'No cluster has that name here' },
  'bad-proxy-header': { kind: 'refused', text: 'The PROXY header is malformed or one too many' },
  'untrusted-agent': { kind: 'refused', text: 'A PROXY header or CONNECT from someone who may not send it' },
  'unknown-cluster': { kind: 'refused', text: 'No cluster has the id in the PROXY header' },
  'bad-signature': { kind: 'refused', text: 'The cluster id is not proven by a valid signature' },
  'not-allowed': { kind: 'refused', text: 'The allow list does not admit this client' },
  'over-limit': { kind: 'refused', text: 'A limit on connections was reached' },
  'no-backend': { kind: 'failed', text: 'The route has no backend' },
  'connect-failed': { kind: 'failed', text: 'No backend could be reached' },
  'connect-timeout': { kind: 'failed', text: 'No backend answered in time' },
  'bad-request': { kind: 'refused', text: 'The HTTP request is malformed' },
  shutdown: { kind: 'cut', text: 'The process, or the worker that held it, ended' },
  fault: { kind: 'failed', text: 'A defect of the gateway met this connection; its log has the stack' },
};

/** A newer gateway may know a word that this page does not: it is shown as it is. */
export function wordsOf(reason: string): string {
  return Object.hasOwn(reasonWords, reason) ? reasonWords[reason].text : reason;
}

export function kindOf(reason: string): ReasonKind {
  return Object.hasOwn(reasonWords, reason) ? reasonWords[reason].kind : 'refused';
}

/** How many connections ended for a reason of that kind. */
export function countOf(reasons: Readonly<Record<string, number>>, kind: ReasonKind): number {
  let sum = 0;
  for (const [reason, count] of Object.entries(reasons)) if (kindOf(reason) === kind) sum += count;
  return sum;
}
