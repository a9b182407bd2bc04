// Whether closing a socket sends a reset or, behind the bytes that it has, FIN: for descriptors on their way to another
// owner, and those of a thread that has died. Peers must not take a stream that was cut for a whole one.

import { type Libc, SO_ACCEPTCONN, SO_LINGER, SOL_SOCKET } from './libc.ts';

export type SetLinger = (descriptor: number, isReset: boolean) => void;
export type ResetOnClose = (descriptor: number) => void;

/** struct linger { on, 0 seconds }: close() sends RST. */
const noLinger = Buffer.from(new Int32Array([1, 0]).buffer);
const usualLinger = Buffer.from(new Int32Array([0, 0]).buffer);

export function setLinger(libc: Libc, descriptor: number, isReset: boolean): void {
  const option = isReset ? noLinger : usualLinger;
  libc.setsockopt(descriptor, SOL_SOCKET, SO_LINGER, option, option.length);
}

/**
 * Closing that descriptor sends a reset from now on, unless it is a listener: other processes may have that too, and all
 * that it accepts would inherit the option.
 */
export function resetOnClose(libc: Libc, descriptor: number): void {
  const isListener = new Int32Array(1);
  const length = new Int32Array([isListener.byteLength]);
  const [value, size] = [new Uint8Array(isListener.buffer), new Uint8Array(length.buffer)];
  const failed = libc.getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, value, size) < 0;
  if (!failed && isListener[0] === 0) setLinger(libc, descriptor, true);
}
