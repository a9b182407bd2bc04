// Why a gateway turned an agent away, as far as the agent can see it, and what to do. Sentences for its log.

import type { UplinkKind } from '../cluster/cluster.ts';
import { closeReasons } from '../gateway/close-reason.ts';
import type { NamedRecord } from '../gateway/control/gateway.ts';

/** A fatal TLS alert, and nothing else. */
const ALERT_BYTES = 7;

/** Of the gateway's answer to a CONNECT; 0 is none. `told` is the beginning of its body. */
export function explainRefusal(status: number, reported: string): string {
  if (status === 0)
    return 'the gateway closed, or answered CONNECT with something else than HTTP. Is that a listener of a Causeway?';
  const said = reported === '' ? `${status}` : `${status}: ${reported}`;
  switch (status) {
    case 403:
      return `the gateway answered ${said}. Is this node's address in 'agents' of its listener, in 'allow' of the cluster, and --key-file the key of this --cluster-id?`;
    case 404:
      return `the gateway answered ${said}. It knows no cluster with this --cluster-id`;
    case 400:
      return `the gateway answered ${said}. Is that a Causeway, or something that does not take CONNECT?`;
    default:
      return `the gateway answered ${said}`;
  }
}

/**
 * Of a connection that went through a PROXY header, which has no answer: a gateway that refuses says so to the client in
 * a TLS alert, or closes. undefined where nothing is to be said.
 */
export function hintOf(record: NamedRecord, uplink: UplinkKind): string | undefined {
  if (uplink === 'connect' || uplink === 'terminate' || record.dialMs < 0 || record.bytesIn === 0)
    return undefined;
  if (record.bytesOut === ALERT_BYTES) {
    return 'the gateway answered with a TLS alert. Does it know this --cluster-id, is the id signed where it must be, is this node allowed, and does it reach the API server? Its log says which';
  }
  // A client that did not wait for an answer is no refusal.
  if (record.clientEndedFirst) return undefined;
  const reason = closeReasons[record.reason];
  if (record.bytesOut === 0 && (reason === 'done' || reason === 'backend-reset')) {
    return "the gateway closed without a word. Is this node's address in 'agents' of its listener, and is that a listener of a Causeway or a HAProxy that takes PROXY headers?";
  }
  return undefined;
}
