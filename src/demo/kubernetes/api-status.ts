// The `Status` objects with which an API server refuses a request. kubectl prints their message.

export type StatusReason = 'Unauthorized' | 'NotFound' | 'MethodNotAllowed' | 'BadRequest' | 'Expired';

export interface ApiStatus {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly metadata: object;
  readonly status: 'Failure';
  readonly message: string;
  readonly reason: StatusReason;
  readonly details?: object;
  readonly code: number;
}

const codes: Readonly<Record<StatusReason, number>> = {
  BadRequest: 400,
  Unauthorized: 401,
  NotFound: 404,
  MethodNotAllowed: 405,
  Expired: 410,
};

export function apiStatus(reason: StatusReason, message: string, details?: object): ApiStatus {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message,
    reason,
    ...(details !== undefined && { details }),
    code: codes[reason],
  };
}
