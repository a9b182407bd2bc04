// errno → the port's error words.

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

const words = new Map<number, number>([
  [libc.ECONNRESET, RESET],
  [libc.EPIPE, RESET],
  [libc.ECONNABORTED, RESET],
  [libc.ECONNREFUSED, REFUSED],
  // A unix socket that is not there.
  [libc.ENOENT, REFUSED],
  [libc.EHOSTUNREACH, UNREACHABLE],
  [libc.ENETUNREACH, UNREACHABLE],
  [libc.ENETDOWN, UNREACHABLE],
  // icmp(7): as Linux reads "host unknown" and "host isolated" of a router.
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
  return words.get(errno) ?? BROKEN;
}
