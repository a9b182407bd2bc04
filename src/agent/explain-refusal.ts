// Explains in the agent's log why a gateway refused a connection, as far as the agent can tell, and what to check.

import type { UplinkKind } from '../cluster/cluster.ts';
import { closeReasons } from '../gateway/close-reason.ts';
import type { NamedRecord } from '../gateway/control/gateway-port.ts';

/** The size of a fatal TLS alert. */
const ALERT_BYTES = 7;

/** `status` is the gateway's answer to a CONNECT, or 0 without one; `reported` is the beginning of its body. */
export function explainRefusal(status: number, reported: string): string {
  if (status === 0)
    return 'the gateway closed the connection, or did not answer CONNECT with HTTP. Is --gateway a listener of a Causeway?';
  const answer = reported === '' ? `${status}` : `${status}: ${reported}`;
  switch (status) {
    case 403:
      return `the gateway answered ${answer}. Is this node's address in 'agents' of its listener and in 'allow' of the cluster, and is --key-file the key of this --cluster-id?`;
    case 404:
      return `the gateway answered ${answer}. It has no cluster with this --cluster-id`;
    case 400:
      return `the gateway answered ${answer}. Is that a Causeway, or something that does not support CONNECT?`;
    default:
      return `the gateway answered ${answer}`;
  }
}

/**
 * For a connection marked by a PROXY header, to which there is no answer: a gateway that refuses it sends the client a
 * TLS alert, or closes. Undefined if there is no hint to give.
 */
export function hintOf(record: NamedRecord, uplink: UplinkKind): string | undefined {
  if (uplink === 'connect' || uplink === 'terminate' || record.dialMs < 0 || record.bytesIn === 0)
    return undefined;
  if (record.bytesOut === ALERT_BYTES) {
    return 'the gateway answered with a TLS alert. Does it know this --cluster-id, is the id signed if it must be, is this node allowed, and can it reach the API server? Its log has the reason';
  }
  // The client did not wait for an answer: not a refusal.
  if (record.clientEndedFirst) return undefined;
  const reason = closeReasons[record.reason];
  if (record.bytesOut === 0 && (reason === 'done' || reason === 'backend-reset')) {
    return "the gateway closed without an answer. Is this node's address in 'agents' of its listener, and is that a listener of a Causeway or a HAProxy that accepts PROXY headers?";
  }
  return undefined;
}
