// Why a connection ended, from what HAProxy logs about it: the termination state (`%ts`; HAProxy's Configuration Manual,
// "Session state at disconnection"), the reason that our own rules noted, the server, and the status of an answer. The
// table in docs/haproxy.md has the same rows.
//
// HAProxy cannot distinguish everything that our own engines can: `revoked` and `drained` are both "killed", and a
// timeout after one side has finished looks like one before. The caller passes what it knows.

import { type CloseReason, closeReasons } from '../gateway/close-reason.ts';

/** The prefix of backends that only refuse: `refuse_unknown-host`. The name is the reason. */
const REFUSAL = 'refuse_';

/** HAProxy's name for "none was chosen". */
const NO_SERVER = '<NOSRV>';

export interface EndedConnection {
  /** `%ts` or `%tsc`: two characters in TCP mode, four in HTTP mode; only the first two count here. */
  readonly state: string;
  readonly backend: string;
  readonly server: string;
  /** `%[var(txn.reason)]`: set by a rule before it refuses; `-` or empty if there was none. */
  readonly reason?: string;
  /** Of an HTTP answer; 0 or -1 if there was none. */
  readonly status?: number;
  /** Bytes from the client. */
  readonly bytesIn?: number;
  /** Whether `timeouts.idle` is on; if it is off, only half-closed connections can time out. */
  readonly hasIdleTimeout?: boolean;
  /** The process is ending, so what is killed now was not revoked. */
  readonly isDraining?: boolean;
}

/** The name of the backend that refuses for this reason. */
export function refusalBackend(reason: CloseReason): string {
  return `${REFUSAL}${reason}`;
}

/** Never throws: `fault` stands for a state that HAProxy does not document. */
export function closeReasonOf(ended: EndedConnection): CloseReason {
  return notedReason(ended) ?? answeredReason(ended) ?? stateReason(ended);
}

/** What our rules noted; a refusing backend's name notes it too. */
function notedReason({ reason, backend }: EndedConnection): CloseReason | undefined {
  const noted = backend.startsWith(REFUSAL) ? backend.slice(REFUSAL.length) : reason;
  return closeReasons.find(known => known === noted);
}

/** HAProxy answered a request itself, by a rule (`L`) or because of a rule or the protocol (`PR`, `cR`). */
function answeredReason({ state, status = 0 }: EndedConnection): CloseReason | undefined {
  if (!/^(?:L|PR|cR)/.test(state)) return undefined;
  return reasonByStatus[status];
}

const reasonByStatus: Readonly<Record<number, CloseReason>> = {
  400: 'bad-request',
  403: 'not-allowed',
  404: 'unknown-host',
  408: 'hello-timeout',
  421: 'unknown-host',
  503: 'over-limit',
};

function stateReason(ended: EndedConnection): CloseReason {
  const { state, server, bytesIn = 1, hasIdleTimeout = false, isDraining = false } = ended;
  const [first = '', second = ''] = state;
  const isUnserved = server === NO_SERVER || server === '' || server === '-';
  switch (first) {
    // Both sides have finished.
    case '-':
      return 'done';
    // HAProxy answered itself, e.g. with a redirect.
    case 'L':
      return 'done';
    case 'C':
      if (second === 'R') return bytesIn === 0 ? 'no-data' : 'client-gone';
      return isTransfer(second) ? 'client-reset' : 'client-gone';
    case 'S':
      if (isTransfer(second) || second === 'H') return 'backend-reset';
      return isUnserved ? 'no-backend' : 'connect-failed';
    case 'c':
      if (second === 'R') return bytesIn === 0 ? 'no-data' : 'hello-timeout';
      return hasIdleTimeout ? 'idle-timeout' : 'half-closed-timeout';
    case 's':
      if (second === 'C') return 'connect-timeout';
      if (second === 'Q') return 'over-limit';
      return hasIdleTimeout || second === 'H' ? 'idle-timeout' : 'half-closed-timeout';
    // By the proxy: while it waited for a request, our rules did not know the bytes; before the connection, a limit.
    case 'P':
      if (second === 'R') return 'not-recognized';
      return second === 'H' || isTransfer(second) ? 'backend-reset' : 'over-limit';
    // No memory, socket or source port was left for the connection to the server.
    case 'R':
      return 'connect-failed';
    // `shutdown session` of the runtime API.
    case 'K':
      return isDraining ? 'drained' : 'revoked';
    // The server was marked down (D), or came back so that its backup ends (U).
    case 'D':
    case 'U':
      return 'backend-reset';
    default:
      return 'fault';
  }
}

/** Data flows, or the last of it. */
function isTransfer(second: string): boolean {
  return second === 'D' || second === 'L';
}
