// One log line for each connection that ended, and for each HTTP request.

import type { Logger } from 'pino';
import { connectionFields, place, tenths } from '../gateway/control/connection-fields.ts';
import type { NamedRecord, NamedRequest } from '../gateway/control/gateway.ts';

export function logConnection(log: Logger, record: NamedRecord): void {
  log.info(connectionFields(record), 'connection');
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
