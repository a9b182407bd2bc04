// Says why cluster ids were not proven, and what to do about it: a warning beside the connection's own line. An agent
// whose clock is wrong tries again and again, so each cause is told at once and then at most once a second; a share that
// is used up for each cluster by itself, so that none hides another.

import type { Logger } from 'pino';
import { closeReasons } from '../gateway/close-reason.ts';
import type { ConnectionRecord } from '../gateway/shared/record-ring.ts';
import { SIGNATURE_WINDOW_SECONDS } from '../gateway/stages/identity-verifier.ts';
import { type SignatureFault, signatureFaults } from '../gateway/stages/signature-fault.ts';
import { formatIpPort } from '../wire/ip-address.ts';

const EVERY_MS = 1000;

/** Told, or counted until it may be told again. */
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

  /** Any connection's record; those of other reasons are not looked at. */
  take(record: ConnectionRecord): void {
    const fault = signatureFaults[record.detail];
    if (closeReasons[record.reason] !== 'bad-signature' || !fault) return;
    const key = fault === 'share-used-up' ? `${fault} ${record.clusterId}` : fault;
    const cause = this.#causes.get(key);
    if (cause === undefined) {
      this.#say(fault, record, 1);
      const timer = setInterval(() => this.#tick(key), EVERY_MS).unref();
      this.#causes.set(key, { fault, count: 0, last: record, timer });
    } else {
      cause.count++;
      cause.last = record;
    }
  }

  /** Says what is left to be said. */
  [Symbol.dispose](): void {
    for (const { fault, timer, last, count } of this.#causes.values()) {
      clearInterval(timer);
      if (count > 0) this.#say(fault, last, count);
    }
    this.#causes.clear();
  }

  #tick(key: string): void {
    const cause = this.#causes.get(key);
    if (cause === undefined) return;
    if (cause.count > 0) {
      this.#say(cause.fault, cause.last, cause.count);
      cause.count = 0;
    } else {
      clearInterval(cause.timer);
      this.#causes.delete(key);
    }
  }

  #say(fault: SignatureFault, record: ConnectionRecord, count: number): void {
    const { why, fix } = words(fault, record.detailSeconds);
    const clusterId = record.clusterId || null;
    const client = formatIpPort(record.client.address, 0, record.client.port);
    this.#log.warn({ clusterId, client, why, count, fix }, 'bad signature');
  }
}

function words(fault: SignatureFault, seconds: number): { readonly why: string; readonly fix: string } {
  const beyond = seconds - SIGNATURE_WINDOW_SECONDS;
  const clocks = (where: string) =>
    `check the clocks: the agent's is ${seconds} s ${where} this gateway's, ${SIGNATURE_WINDOW_SECONDS} s are allowed`;
  switch (fault) {
    case 'missing':
      return {
        why: 'missing',
        fix: "give the agent its key (causeway identity key), or take 'required' off for clusters whose agents cannot sign",
      };
    case 'malformed':
      return {
        why: 'malformed',
        fix: 'look at what the agent sends: 53 bytes of version 1, over CONNECT in base64url without padding',
      };
    case 'wrong':
      return {
        why: 'wrong',
        fix: "is the agent's key made for this cluster id, and from a secret that identity.secretFile still has? Does something between rewrite its PROXY header?",
      };
    case 'too-old':
      return { why: `too old by ${beyond} s`, fix: clocks('behind') };
    case 'from-the-future':
      return { why: `from the future by ${beyond} s`, fix: clocks('ahead of') };
    case 'replayed':
      return {
        why: 'replayed',
        fix: 'somebody who can read the traffic may have sent it again; or an agent uses a nonce twice',
      };
    case 'no-room':
      return {
        why: 'too many to remember',
        fix: 'more signed connections came within two minutes than nonces can be remembered: see who connects so often, or add replicas',
      };
    case 'share-used-up':
      return {
        why: 'too many of this cluster to remember',
        fix: "this cluster's agents made more signed connections within two minutes than its share of the nonces that can be remembered; other clusters are served. See who connects so often, or set the cluster's limits.newPerSecond",
      };
    default:
      return fault satisfies never;
  }
}
