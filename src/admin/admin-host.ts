// Which Host values are accepted: a page of another site must not reach the admin side by pointing its own name at this
// machine (DNS rebinding).

import { isIP } from 'node:net';

export function isOwnHost(header: string, hosts: readonly string[]): boolean {
  const host = hostOf(header);
  return isIP(host) !== 0 || host === 'localhost' || hosts.some(known => known.toLowerCase() === host);
}

/** Without port and brackets, in lower case. */
export function hostOf(header: string): string {
  const bracketed = /^\[(.*)\](:\d+)?$/.exec(header);
  return (bracketed === null ? header.replace(/:\d+$/, '') : bracketed[1]).toLowerCase();
}
