// Maps errno to the port's error codes.

import * as libc from './libc.ts';
import {
  BROKEN,
  DENIED,
  EXHAUSTED,
  IN_USE,
  NOT_AVAILABLE,
  REFUSED,
  RESET,
  TIMED_OUT,
  UNREACHABLE,
} from './reactor.ts';

const errorCodes = new Map<number, number>([
  [libc.ECONNRESET, RESET],
  [libc.EPIPE, RESET],
  [libc.ECONNABORTED, RESET],
  [libc.ECONNREFUSED, REFUSED],
  [libc.EHOSTUNREACH, UNREACHABLE],
  [libc.ENETUNREACH, UNREACHABLE],
  [libc.ENETDOWN, UNREACHABLE],
  // icmp(7): Linux's translation of a router's "host unknown" and "host isolated".
  [libc.EHOSTDOWN, UNREACHABLE],
  [libc.ENONET, UNREACHABLE],
  [libc.ETIMEDOUT, TIMED_OUT],
  [libc.EMFILE, EXHAUSTED],
  [libc.ENFILE, EXHAUSTED],
  [libc.ENOBUFS, EXHAUSTED],
  [libc.ENOMEM, EXHAUSTED],
  [libc.EADDRINUSE, IN_USE],
  [libc.EACCES, DENIED],
  [libc.EPERM, DENIED],
  [libc.EADDRNOTAVAIL, NOT_AVAILABLE],
]);

export function errorOfErrno(errno: number): number {
  return errorCodes.get(errno) ?? BROKEN;
}
