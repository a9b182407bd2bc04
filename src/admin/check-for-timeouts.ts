// How often node:http looks for connections that have timed out. By itself it does so as long as it listens, however few
// connections there are, which wakes a process that has nothing to do.

import type { Server } from 'node:http';

/** The longest interval that a timer can have. */
export const NEVER_MS = 2 ** 31 - 1;

/** From now on. undefined: not at all. */
export function checkForTimeouts(server: Server, everyMs: number | undefined): void {
  // Not documented: it sets its timer anew whenever it begins to listen.
  (server as Server & { connectionsCheckingInterval: number }).connectionsCheckingInterval =
    everyMs ?? NEVER_MS;
  server.emit('listening');
}
