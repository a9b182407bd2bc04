// Ends a TLS connection that was opened to look at its server.

import type { TLSSocket } from 'node:tls';

/** How long a server may take to close after the handshake. */
const GOODBYE_MS = 250;

/** Closing with unread session tickets sends a reset, which would be an error in the server's log. */
export function sayGoodbye(secure: TLSSocket): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, GOODBYE_MS);
    secure.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    secure.resume();
    secure.end();
  });
}
