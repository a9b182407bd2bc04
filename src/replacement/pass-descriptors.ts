// Passes open descriptors from one process to another over a unix socket (SCM_RIGHTS), which Node cannot do. Linux only.

import koffi from 'koffi';
import {
  AF_UNIX,
  EAGAIN,
  ECONNREFUSED,
  ENOENT,
  type Libc,
  loadLibc,
  MSG_NOSIGNAL,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
} from '../gateway/io/libc.ts';
import { unixSockaddr } from '../gateway/io/sockaddr.ts';

/** The kernel takes 253 at most. */
const MOST = 200;
const SCM_RIGHTS = 1;
const MSG_CTRUNC = 8;
const MSG_CMSG_CLOEXEC = 0x4000_0000;
/** struct cmsghdr without its data. */
const HEADER_BYTES = 16;
const DESCRIPTOR_BYTES = 4;
const CONTROL_BYTES = HEADER_BYTES + 256 * DESCRIPTOR_BYTES;

/** Sends the text and the descriptors. The socket has room for both, or it throws. */
export function sendDescriptors(socket: number, text: string, descriptors: readonly number[]): void {
  const libc = loadLibc();
  send(libc, socket, Buffer.from(text), descriptors.slice(0, MOST));
  // The rest goes with blank lines: descriptors need a byte to travel with.
  for (let from = MOST; from < descriptors.length; from += MOST) {
    send(libc, socket, Buffer.from('\n'), descriptors.slice(from, from + MOST));
  }
}

function send(libc: Libc, socket: number, bytes: Buffer, descriptors: readonly number[]): void {
  const length = HEADER_BYTES + descriptors.length * DESCRIPTOR_BYTES;
  const control = Buffer.alloc(descriptors.length === 0 ? 0 : Math.ceil(length / 8) * 8);
  if (descriptors.length > 0) {
    control.writeBigUInt64LE(BigInt(length), 0);
    control.writeInt32LE(SOL_SOCKET, 8);
    control.writeInt32LE(SCM_RIGHTS, 12);
    for (const [i, descriptor] of descriptors.entries())
      control.writeInt32LE(descriptor, HEADER_BYTES + i * DESCRIPTOR_BYTES);
  }
  const message = messageOf(bytes, control);
  const sent = libc.sendmsg(socket, message.header, MSG_NOSIGNAL);
  if (sent !== bytes.length) throw new Error(`sendmsg() returned ${sent}, errno ${libc.errno()}`);
}

/** One end of a connection to a unix socket, with its own descriptor. */
export class DescriptorReceiver {
  readonly descriptor: number;
  readonly #libc: Libc;
  readonly #bytes = Buffer.alloc(65_536);
  readonly #control = Buffer.alloc(CONTROL_BYTES);

  private constructor(libc: Libc, descriptor: number) {
    this.#libc = libc;
    this.descriptor = descriptor;
  }

  /** Undefined if nobody listens there. */
  static connect(path: string): DescriptorReceiver | undefined {
    const libc = loadLibc();
    const target = unixSockaddr(path);
    if (target === undefined) throw new Error(`The path is too long for a socket: ${path}`);
    const descriptor = libc.socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) throw new Error(`socket() failed with errno ${libc.errno()}`);
    if (libc.connect(descriptor, target.bytes, target.bytes.length) === 0)
      return new DescriptorReceiver(libc, descriptor);
    const errno = libc.errno();
    libc.close(descriptor);
    if (errno === ENOENT || errno === ECONNREFUSED) return undefined;
    throw new Error(`connect() to ${path} failed with errno ${errno}`);
  }

  send(text: string): void {
    send(this.#libc, this.descriptor, Buffer.from(text), []);
  }

  /**
   * What has arrived: undefined if nothing has, an empty text at the end. The caller owns the descriptors. Throws if they
   * do not fit.
   */
  receive(): { readonly text: string; readonly descriptors: readonly number[] } | undefined {
    const message = messageOf(this.#bytes, this.#control);
    const length = this.#libc.recvmsg(this.descriptor, message.header, MSG_CMSG_CLOEXEC);
    if (length < 0) {
      if (this.#libc.errno() === EAGAIN) return undefined;
      return { text: '', descriptors: [] };
    }
    if (message.wasCut())
      throw new Error('this process has no room for more open files (ulimit -n, LimitNOFILE)');
    return {
      text: this.#bytes.toString('utf8', 0, length),
      descriptors: descriptorsIn(this.#control, message.controlLength()),
    };
  }

  close(): void {
    this.#libc.close(this.descriptor);
  }
}

/** The data of all control messages of the kind SCM_RIGHTS. */
function descriptorsIn(control: Buffer, length: number): readonly number[] {
  const descriptors: number[] = [];
  for (let at = 0; at + HEADER_BYTES <= length; ) {
    const size = Number(control.readBigUInt64LE(at));
    if (size < HEADER_BYTES) break;
    if (control.readInt32LE(at + 8) === SOL_SOCKET && control.readInt32LE(at + 12) === SCM_RIGHTS) {
      for (let data = at + HEADER_BYTES; data < at + size; data += DESCRIPTOR_BYTES)
        descriptors.push(control.readInt32LE(data));
    }
    at += Math.ceil(size / 8) * 8;
  }
  return descriptors;
}

interface Message {
  readonly header: Buffer;
  /** The header points to it, so it must live as long. */
  readonly vector: Buffer;
  controlLength(): number;
  /** Descriptors did not fit, and are lost. */
  wasCut(): boolean;
}

/** struct msghdr with one struct iovec; both buffers must outlive its use. */
function messageOf(bytes: Buffer, control: Buffer): Message {
  const vector = Buffer.alloc(16);
  vector.writeBigUInt64LE(BigInt(koffi.address(bytes)), 0);
  vector.writeBigUInt64LE(BigInt(bytes.length), 8);
  const header = Buffer.alloc(56);
  header.writeBigUInt64LE(BigInt(koffi.address(vector)), 16);
  header.writeBigUInt64LE(1n, 24);
  if (control.length > 0) header.writeBigUInt64LE(BigInt(koffi.address(control)), 32);
  header.writeBigUInt64LE(BigInt(control.length), 40);
  return {
    header,
    vector,
    controlLength: () => Number(header.readBigUInt64LE(40)),
    wasCut: () => (header.readInt32LE(48) & MSG_CTRUNC) !== 0,
  };
}
