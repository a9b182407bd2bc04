// One log line for each connection that ended.

import type { Logger } from 'pino';
import { connectionFields } from '../gateway/connection-fields.ts';
import type { NamedRecord } from '../gateway/gateway.ts';

export function logConnection(log: Logger, record: NamedRecord): void {
  log.info(connectionFields(record), 'connection');
}
