// Logs why cluster ids failed verification and what to do about it: a warning besides the connection's own line. An
// agent with a wrong clock retries forever, so each cause is logged at once and then at most once a second; a used-up
// share is logged per cluster, so that no cluster hides another.

import type { Logger } from 'pino';
import { closeReasons } from '../gateway/close-reason.ts';
import type { ConnectionRecord } from '../gateway/shared/record-ring.ts';
import { SIGNATURE_WINDOW_SECONDS } from '../gateway/stages/identity-verifier.ts';
import { type SignatureFault, signatureFaults } from '../gateway/stages/signature-fault.ts';
import { formatIpPort } from '../wire/ip-address.ts';

const EVERY_MS = 1000;

/** A cause that was logged; `count` is what has come since. */
interface Cause {
  readonly fault: SignatureFault;
  count: number;
  last: ConnectionRecord;
  readonly timer: NodeJS.Timeout;
}

export class BadSignatureLog implements Disposable {
  readonly #log: Logger;
  readonly #causes = new Map<string, Cause>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Takes the record of any connection; ignores other close reasons. */
  take(record: ConnectionRecord): void {
    const fault = signatureFaults[record.detail];
    if (closeReasons[record.reason] !== 'bad-signature' || !fault) return;
    const key = fault === 'share-used-up' ? `${fault} ${record.clusterId}` : fault;
    const cause = this.#causes.get(key);
    if (cause === undefined) {
      this.#report(fault, record, 1);
      const timer = setInterval(() => this.#tick(key), EVERY_MS).unref();
      this.#causes.set(key, { fault, count: 0, last: record, timer });
    } else {
      cause.count++;
      cause.last = record;
    }
  }

  /** Logs pending counts. */
  [Symbol.dispose](): void {
    for (const { fault, timer, last, count } of this.#causes.values()) {
      clearInterval(timer);
      if (count > 0) this.#report(fault, last, count);
    }
    this.#causes.clear();
  }

  #tick(key: string): void {
    const cause = this.#causes.get(key);
    if (cause === undefined) return;
    if (cause.count > 0) {
      this.#report(cause.fault, cause.last, cause.count);
      cause.count = 0;
    } else {
      clearInterval(cause.timer);
      this.#causes.delete(key);
    }
  }

  #report(fault: SignatureFault, record: ConnectionRecord, count: number): void {
    const { why, fix } = describeFault(fault, record.detailSeconds);
    const clusterId = record.clusterId || null;
    const client = formatIpPort(record.client.address, 0, record.client.port);
    this.#log.warn({ clusterId, client, why, count, fix }, 'bad signature');
  }
}

function describeFault(
  fault: SignatureFault,
  seconds: number,
): { readonly why: string; readonly fix: string } {
  const beyond = seconds - SIGNATURE_WINDOW_SECONDS;
  const clocks = (where: string) =>
    `check the clocks: the agent's is ${seconds} s ${where} this gateway's, ${SIGNATURE_WINDOW_SECONDS} s are allowed`;
  switch (fault) {
    case 'missing':
      return {
        why: 'missing',
        fix: "give the agent its key (causeway identity key), or remove 'required' for clusters whose agents cannot sign",
      };
    case 'malformed':
      return {
        why: 'malformed',
        fix: 'check what the agent sends: it must be 53 bytes of version 1, over CONNECT in base64url without padding',
      };
    case 'wrong':
      return {
        why: 'wrong',
        fix: "check that the agent's key was made for this cluster id, from a secret that is still in identity.secretFile, and that nothing in between rewrites its PROXY header",
      };
    case 'too-old':
      return { why: `too old by ${beyond} s`, fix: clocks('behind') };
    case 'from-the-future':
      return { why: `from the future by ${beyond} s`, fix: clocks('ahead of') };
    case 'replayed':
      return {
        why: 'replayed',
        fix: 'someone who can read the traffic may have replayed it, or an agent used a nonce twice',
      };
    case 'no-room':
      return {
        why: 'nonce table full',
        fix: 'more signed connections arrived within two minutes than the gateway can remember nonces: find out who connects so often, or add replicas',
      };
    case 'share-used-up':
      return {
        why: "cluster's share of the nonce table used up",
        fix: "this cluster's agents made more signed connections within two minutes than its share of the nonce table; other clusters are not affected. Find out who connects so often, or set the cluster's limits.newPerSecond",
      };
    default:
      return fault satisfies never;
  }
}
