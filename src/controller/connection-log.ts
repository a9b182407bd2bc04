// One log line for each connection that ended, and for each HTTP request.

import type { Logger } from 'pino';
import { closeReasons } from '../gateway/close-reason.ts';
import type { NamedRecord, NamedRequest } from '../gateway/gateway.ts';
import type { RecordAddress } from '../gateway/record-ring.ts';
import { protocols } from '../gateway/rows.ts';
import { formatIpPort } from '../wire/ip-address.ts';

export function logConnection(log: Logger, record: NamedRecord): void {
  log.info(
    {
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
      reason: closeReasons[record.reason],
      in: record.bytesIn,
      out: record.bytesOut,
      ms: tenths(record.ms),
      dialMs: record.dialMs < 0 ? null : tenths(record.dialMs),
    },
    'connection',
  );
}

export function logRequest(log: Logger, record: NamedRequest): void {
  log.info(
    {
      client: place(record),
      host: record.host ?? null,
      cluster: record.route?.cluster ?? null,
      route: record.route?.route ?? null,
      backend: record.backend ?? null,
      method: record.method,
      status: record.status,
      ms: tenths(record.ms),
    },
    'request',
  );
}

function place({ address, port }: RecordAddress): string {
  return formatIpPort(address, 0, port);
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10;
}
