// Two streams as one: bytes both ways, each as fast as the other takes them, FIN in each direction by itself.

import type { Duplex } from 'node:stream';
import { type FaultOwner, guard } from '../guard.ts';

export interface Joined {
  /** The connection that both are of. */
  readonly owner: FaultOwner;
  readonly near: Duplex;
  readonly far: Duplex;
  /** That side is gone without its FIN. Perhaps called more than once. The other is not closed by that. */
  nearLost(): void;
  farLost(): void;
  /** In place of passing on the far side's FIN. */
  farEnded?(): void;
}

export function join({ owner, near, far, nearLost, farLost, farEnded = () => near.end() }: Joined): void {
  whenLost(owner, near, nearLost);
  whenLost(owner, far, farLost);
  near.once(
    'end',
    guard(owner, () => far.end()),
  );
  far.once('end', guard(owner, farEnded));
  near.pipe(far, { end: false });
  far.pipe(near, { end: false });
}

function whenLost(owner: FaultOwner, stream: Duplex, lost: () => void): void {
  stream.on('error', guard(owner, lost));
  stream.once(
    'close',
    guard(owner, () => {
      if (!stream.readableEnded) lost();
    }),
  );
}
