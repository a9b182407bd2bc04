// Why a connection ended: a closed set. The same name is the metric label, the log field, the dashboard column and the
// row in docs/close-reasons.md. Rows store the index, so the order is part of the shared-memory layout.

export const closeReasons = [
  'done',
  'client-reset',
  'backend-reset',
  'idle-timeout',
  'half-closed-timeout',
  'drained',
  'revoked',
  'no-data',
  'client-gone',
  'not-recognized',
  'hello-timeout',
  'bad-hello',
  'no-sni',
  'unknown-host',
  'bad-proxy-header',
  'untrusted-agent',
  'unknown-cluster',
  'bad-signature',
  'not-allowed',
  'over-limit',
  'no-backend',
  'connect-failed',
  'connect-timeout',
  'bad-request',
  'shutdown',
  'fault',
] as const;

export type CloseReason = (typeof closeReasons)[number];

/** The connection was served or the client left on its own: not a refusal, so `log.connections: refused` omits it. */
export const served: ReadonlySet<CloseReason> = new Set([
  'done',
  'client-reset',
  'backend-reset',
  'idle-timeout',
  'half-closed-timeout',
  'drained',
  'no-data',
  'client-gone',
  'shutdown',
]);
