// The rule that refuses a connection, or answers a request with a status.

/** `condition` is empty, ` if …` or ` unless …`. */
export function refuse(isHttp: boolean, status: number, condition: string): string {
  return isHttp
    ? `http-request deny deny_status ${status}${condition}`
    : `tcp-request content reject${condition}`;
}
