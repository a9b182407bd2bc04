// Close reasons and dial errors in plain sentences. docs/close-reasons.md says more; a test keeps both sets complete.

/** served: it did its work; left, cut: who ended it; refused: not admitted; failed: no backend took it, or a defect. */
export type ReasonKind = 'served' | 'left' | 'cut' | 'refused' | 'failed';

interface Description {
  readonly kind: ReasonKind;
  readonly text: string;
}

export const reasons: Readonly<Record<string, Description>> = {
  done: { kind: 'served', text: 'Both sides finished' },
  'client-reset': { kind: 'served', text: 'The client reset the connection' },
  'backend-reset': { kind: 'failed', text: 'The backend reset the connection' },
  'idle-timeout': { kind: 'cut', text: 'No traffic for longer than the idle timeout' },
  'half-closed-timeout': { kind: 'cut', text: 'One side finished and the other stayed silent' },
  drained: { kind: 'cut', text: 'Still open when the drain time ran out' },
  revoked: { kind: 'cut', text: 'Ended by a config change or by an admin' },
  'no-data': { kind: 'left', text: 'The client left without sending a byte' },
  'client-gone': { kind: 'left', text: 'The client left before a backend was reached' },
  'not-recognized': { kind: 'refused', text: 'Neither TLS, PROXY, CONNECT nor HTTP' },
  'hello-timeout': { kind: 'refused', text: 'The client sent nothing complete in time' },
  'bad-hello': { kind: 'refused', text: 'Malformed TLS ClientHello' },
  'no-sni': { kind: 'refused', text: 'TLS without a server name or a cluster id' },
  'unknown-host': { kind: 'refused', text: 'No cluster has this host name' },
  'bad-proxy-header': { kind: 'refused', text: 'Malformed or unexpected PROXY header' },
  'untrusted-agent': { kind: 'refused', text: 'PROXY header or CONNECT from a client that may not send it' },
  'unknown-cluster': { kind: 'refused', text: 'No cluster has the id in the PROXY header' },
  'bad-signature': { kind: 'refused', text: 'The cluster id has no valid signature' },
  'not-allowed': { kind: 'refused', text: 'The allow list does not admit this client' },
  'over-limit': { kind: 'refused', text: 'A connection limit was reached' },
  'no-backend': { kind: 'failed', text: 'The route has no backend' },
  'connect-failed': { kind: 'failed', text: 'No backend could be reached' },
  'connect-timeout': { kind: 'failed', text: 'No backend answered in time' },
  'bad-request': { kind: 'refused', text: 'Malformed HTTP request' },
  shutdown: { kind: 'cut', text: 'The gateway or one of its workers ended' },
  fault: { kind: 'failed', text: 'Internal error of the gateway; see its log' },
};

/** Why a dial failed: the field `error` of a refusal. */
export const dialErrors: Readonly<Record<string, string>> = {
  refused: 'connection refused',
  unreachable: 'no route to the backend',
  timeout: 'the backend did not answer',
  'name-not-found': 'its name does not resolve',
  reset: 'the backend reset the connection',
};

/** A reason that only a newer gateway knows is shown as it is. */
export function describeReason(reason: string, error = ''): string {
  const text = Object.hasOwn(reasons, reason) ? reasons[reason].text : reason;
  if (error === '') return text;
  return `${text}: ${Object.hasOwn(dialErrors, error) ? dialErrors[error] : error}`;
}

export function kindOf(reason: string): ReasonKind {
  return Object.hasOwn(reasons, reason) ? reasons[reason].kind : 'refused';
}

/** How many connections ended for a reason of that kind. */
export function countOf(counts: Readonly<Record<string, number>>, kind: ReasonKind): number {
  let sum = 0;
  for (const [reason, count] of Object.entries(counts)) if (kindOf(reason) === kind) sum += count;
  return sum;
}
