// A connection in readable form: the keys of its log line, of a refusal event and of the list of open connections. null
// means unknown.

import { formatIpPort } from '../../wire/ip-address.ts';
import { type CloseReason, closeReasons } from '../close-reason.ts';
import type { RecordAddress } from '../shared/record-ring.ts';
import { protocols } from '../shared/rows.ts';
import { errorOf } from '../stages/dial-failure.ts';
import type { NamedRecord, OpenConnection } from './gateway-port.ts';

export interface ConnectionFields {
  readonly listener: string;
  readonly peer: string;
  readonly client: string;
  readonly origin: string | null;
  readonly protocol: string | null;
  readonly host: string | null;
  readonly clusterId: string | null;
  readonly cluster: string | null;
  readonly route: string | null;
  readonly backend: string | null;
  /** Absent while the connection is open. */
  readonly reason?: CloseReason;
  /** Why no backend was reached, if that is the reason. */
  readonly error: string | null;
  readonly in: number;
  readonly out: number;
  readonly ms: number;
  readonly dialMs: number | null;
}

export function connectionFields(record: NamedRecord | OpenConnection): ConnectionFields {
  return {
    listener: record.on,
    peer: place(record.peer),
    client: place(record.client),
    origin: record.origin === undefined ? null : place(record.origin),
    protocol: protocols[record.protocol] || null,
    host: record.host || null,
    clusterId: record.clusterId || null,
    cluster: record.route?.cluster ?? null,
    route: record.route?.route ?? null,
    backend: record.backend ?? null,
    ...('reason' in record && { reason: closeReasons[record.reason] }),
    error: 'reason' in record ? errorOf(closeReasons[record.reason], record.detail) : null,
    in: record.bytesIn,
    out: record.bytesOut,
    ms: tenths(record.ms),
    dialMs: record.dialMs < 0 ? null : tenths(record.dialMs),
  };
}

export function place({ address, port }: RecordAddress): string {
  return formatIpPort(address, 0, port);
}

export function tenths(ms: number): number {
  return Math.round(ms * 10) / 10;
}
