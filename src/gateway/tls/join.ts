// Joins two streams: bytes both ways with back-pressure, and a separate FIN in each direction.

import type { Duplex } from 'node:stream';
import { type FaultOwner, guard } from '../guard.ts';

export interface Joined {
  /** The connection that both streams belong to. */
  readonly owner: FaultOwner;
  readonly near: Duplex;
  readonly far: Duplex;
  /** That side closed without FIN. May be called more than once. The caller closes the other side. */
  nearLost(): void;
  farLost(): void;
  /** Called instead of passing on the far side's FIN. */
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
