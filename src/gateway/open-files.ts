// What the open-file limit of the process has room for. Descriptors are given out lowest first, so one whose number is
// high means that all below it are taken: clients and what is dialled for them get none from a certain number on, and
// those beyond are spare, for the admin side, health checks, names, files and threads that start anew.

/** What the default of `limits.connections` leaves for all that is no connection. */
const OTHER_FILES = 512;
/** A served connection has a client and a backend. */
const PER_CONNECTION = 2;
/** Where the limit is small: a part of it, since what is left after OTHER_FILES would be nothing. */
const AT_LEAST = 1 / 8;
/** Rows cost memory: beyond this many descriptors a worker does not count on more. */
const MAX_CAPACITY = 1 << 20;
/** How much is spare: a part of the limit, within these. */
const SPARE = 1 / 8;
const LEAST_SPARE = 16;
const MOST_SPARE = 256;
/** With fewer, a gateway is worth a warning by itself. */
const ENOUGH = 1024;

export interface FileRoom {
  /** Handles a worker may have open. */
  readonly capacity: number;
  /** The default of `limits.connections`, and the most that it can be. */
  readonly connections: number;
  /** Clients, and what is dialled for them, get descriptors below this number. */
  readonly clientFiles: number;
}

export function roomIn(openFiles: number): FileRoom {
  const spare = Math.min(MOST_SPARE, Math.max(LEAST_SPARE, Math.floor(openFiles * SPARE)));
  const usual = Math.floor((openFiles - OTHER_FILES) / PER_CONNECTION);
  return {
    capacity: Math.min(openFiles, MAX_CAPACITY),
    connections: Math.max(usual, Math.floor(openFiles * AT_LEAST), 1),
    clientFiles: openFiles - spare,
  };
}

/** What a person should know about `limits.connections`, absent for the default, on a machine with that limit. */
export function openFilesWarning(connections: number | undefined, openFiles: number): string | undefined {
  const room = roomIn(openFiles).connections;
  const raise = 'raise the limit (ulimit -n, LimitNOFILE= of systemd)';
  if (connections !== undefined && connections > room) {
    return `${connections} connections are more than the open-file limit of this process, ${openFiles}, has room for: those beyond ${room} are refused (over-limit); ${raise}, or set at most ${room}`;
  }
  if (connections !== undefined || openFiles >= ENOUGH) return undefined;
  return `the open-file limit of this process, ${openFiles}, has room for ${room} connections only: ${raise}`;
}
