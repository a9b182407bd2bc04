// Two streams as one: bytes both ways, each as fast as the other takes them, FIN in each direction by itself.

import type { Duplex } from 'node:stream';

export interface Joined {
  readonly near: Duplex;
  readonly far: Duplex;
  /** That side is gone without its FIN. Perhaps called more than once. The other is not closed by that. */
  nearLost(): void;
  farLost(): void;
  /** In place of passing on the far side's FIN. */
  farEnded?(): void;
}

export function join({ near, far, nearLost, farLost, farEnded = () => near.end() }: Joined): void {
  whenLost(near, nearLost);
  whenLost(far, farLost);
  near.once('end', () => far.end());
  far.once('end', farEnded);
  near.pipe(far, { end: false });
  far.pipe(near, { end: false });
}

function whenLost(stream: Duplex, lost: () => void): void {
  stream.on('error', lost);
  stream.once('close', () => {
    if (!stream.readableEnded) lost();
  });
}
