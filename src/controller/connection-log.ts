// Writes one log line per connection that ended, per HTTP request, and per internal fault.

import type { Logger } from 'pino';
import { closeReasons } from '../gateway/close-reason.ts';
import { connectionFields, place, tenths } from '../gateway/control/connection-fields.ts';
import type { NamedRecord, NamedRequest } from '../gateway/control/gateway-port.ts';
import { errorOf, type FaultReport } from '../gateway/fault-log.ts';
import { isDialReason } from '../gateway/stages/dial-failure.ts';

/** An unreachable backend needs attention, so it is a warning; other refusals may be hostile clients. */
export function logConnection(log: Logger, record: NamedRecord): void {
  const level = isDialReason(closeReasons[record.reason]) ? 'warn' : 'info';
  log[level](connectionFields(record), 'connection');
}

export function logRequest(log: Logger, record: NamedRequest): void {
  log.info(
    {
      client: place(record),
      host: record.host ?? null,
      cluster: record.route?.cluster ?? null,
      route: record.route?.route ?? null,
      backend: record.backend ?? null,
      method: record.method ?? null,
      status: record.status,
      ms: tenths(record.ms),
    },
    'request',
  );
}

export function logFault(log: Logger, report: FaultReport): void {
  const { thread, about, suppressed } = report;
  log.error({ thread, ...about, suppressed, err: errorOf(report) }, 'fault');
}
