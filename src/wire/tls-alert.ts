// The fatal alert that a refused TLS client gets before the connection closes, in a plaintext record, so that it can
// report the cause instead of a reset.

/** RFC 8446 6.2. */
export const alerts = {
  access_denied: 49,
  decode_error: 50,
  internal_error: 80,
  unrecognized_name: 112,
} as const;

export type Alert = keyof typeof alerts;

const records: Readonly<Record<Alert, Uint8Array>> = {
  access_denied: alertRecord(alerts.access_denied),
  decode_error: alertRecord(alerts.decode_error),
  internal_error: alertRecord(alerts.internal_error),
  unrecognized_name: alertRecord(alerts.unrecognized_name),
};

/** The complete record. Every call returns the same array: do not modify it. */
export function tlsAlert(alert: Alert): Uint8Array {
  return records[alert];
}

/** Record type 21, version 3.1 (which the oldest clients still read), length 2, level fatal, code. */
function alertRecord(code: number): Uint8Array {
  return Uint8Array.of(0x15, 0x03, 0x01, 0x00, 0x02, 0x02, code);
}
