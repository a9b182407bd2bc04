// Two streams as one: bytes both ways, each as fast as the other takes them, FIN in each direction by itself. When one
// breaks, so does the other.

import type { Duplex } from 'node:stream';

export function join(a: Duplex, b: Duplex): void {
  a.on('error', () => b.destroy());
  b.on('error', () => a.destroy());
  a.once('close', () => closeAfter(a, b));
  b.once('close', () => closeAfter(b, a));
  a.pipe(b);
  b.pipe(a);
}

/** One that closed without FIN was cut off: the other must not look as if it had ended well. */
function closeAfter(closed: Duplex, other: Duplex): void {
  if (!closed.readableEnded) other.destroy();
}
