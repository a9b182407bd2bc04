// Divides the process's open-file limit. The kernel assigns the lowest free descriptor, so a high number means that all
// lower ones are taken: clients and backends get no descriptor above a threshold. Those above it stay free for the
// admin side, health checks, name resolution, files and restarted threads.

/** Descriptors that the default of `limits.connections` reserves for everything that is not a connection. */
const OTHER_FILES = 512;
/** A served connection has a client and a backend. */
const PER_CONNECTION = 2;
/** Minimum fraction for small limits, where subtracting OTHER_FILES would leave nothing. */
const AT_LEAST = 1 / 8;
/** Rows cost memory: a worker is never sized for more descriptors than this. */
const MAX_CAPACITY = 1 << 20;
/** The spare descriptors: a fraction of the limit, within these bounds. */
const SPARE = 1 / 8;
const LEAST_SPARE = 16;
const MOST_SPARE = 256;
/** A lower limit alone is worth a warning. */
const ENOUGH = 1024;

export interface FileRoom {
  /** Number of handles a worker may have open. */
  readonly capacity: number;
  /** The default and the maximum of `limits.connections`. */
  readonly connections: number;
  /** Clients and backends get only descriptors below this number. */
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

/** The warning about `limits.connections` (undefined: the default) under that open-file limit, if one is due. */
export function openFilesWarning(connections: number | undefined, openFiles: number): string | undefined {
  const room = roomIn(openFiles).connections;
  const raise = 'raise the limit (ulimit -n, LimitNOFILE= of systemd)';
  if (connections !== undefined && connections > room) {
    return `${connections} connections are more than the open-file limit of this process, ${openFiles}, has room for: those beyond ${room} are refused (over-limit); ${raise}, or set at most ${room}`;
  }
  if (connections !== undefined || openFiles >= ENOUGH) return undefined;
  return `the open-file limit of this process, ${openFiles}, has room for ${room} connections only: ${raise}`;
}
