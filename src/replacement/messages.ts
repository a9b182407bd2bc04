// What processes say to each other over the sockets in runDir: lines of JSON.

import type { Socket } from 'node:net';
import type { InheritedSocket } from '../gateway/control/inherited-sockets.ts';

/** Longer than any message between processes that only ask and count. */
const LONGEST = 4096;

/** From a process that asks. */
export type Request =
  /** Who are you? */
  | { readonly kind: 'who' }
  /** Begins a replacement. It lasts until `serving`, or until the connection ends without it. */
  | { readonly kind: 'take-over'; readonly pid: number }
  /** The new process accepts connections: the old one may stop. */
  | { readonly kind: 'serving' }
  /** Asks for the number of open connections, again and again. */
  | { readonly kind: 'watch' };

export type Reply =
  | { readonly kind: 'gateway'; readonly pid: number; readonly phase: Phase }
  /** The answer to `take-over`; the descriptors come with it. */
  | ({ readonly kind: 'sockets'; readonly pid: number } & Offer)
  /** Another process is taking over right now, or has done so. */
  | { readonly kind: 'busy'; readonly by: number }
  | { readonly kind: 'replaced' }
  | { readonly kind: 'connections'; readonly count: number };

/** Undefined if it is no message: another program may have a socket in the folder. */
export function parseMessage<Message extends Request | Reply>(line: string): Message | undefined {
  try {
    const message = JSON.parse(line) as Message | null;
    return typeof message === 'object' && message !== null ? message : undefined;
  } catch {
    return undefined;
  }
}

export function sendMessage(socket: Socket, message: Request | Reply): void {
  socket.write(messageText(message));
}

export function messageText(message: Request | Reply): string {
  return `${JSON.stringify(message)}\n`;
}

/** Calls `take` for each message that arrives. Whoever says something else is not one of us, and is left. */
export function takeMessages<Message extends Request | Reply>(
  socket: Socket,
  take: (message: Message) => void,
): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const message = parseMessage<Message>(line);
      if (message === undefined) return void socket.destroy();
      take(message);
    }
    if (rest.length > LONGEST) socket.destroy();
  });
}

/** `starting`: it is about to take over. */
export type Phase = 'starting' | 'serving' | 'draining';

/** Sockets to take over, with the number of descriptors instead of the descriptors. */
export interface Offer {
  readonly listeners: readonly OfferedSocket[];
  readonly admin: OfferedSocket | null;
}

export interface OfferedSocket {
  /** In hex. */
  readonly address: string;
  readonly port: number;
  readonly isDualStack: boolean;
  readonly on: string | null;
  readonly isKept: boolean;
  readonly descriptors: number;
}

/** The sockets of a process. */
export interface Sockets {
  readonly listeners: readonly InheritedSocket[];
  readonly admin: InheritedSocket | undefined;
}

/** The offer, and the descriptors that go with it. */
export function offerOf({ listeners, admin }: Sockets): { offer: Offer; descriptors: readonly number[] } {
  const all = [...listeners, ...(admin === undefined ? [] : [admin])];
  return {
    offer: {
      listeners: listeners.map(offeredSocket),
      admin: admin === undefined ? null : offeredSocket(admin),
    },
    descriptors: all.flatMap(({ descriptors }) => descriptors),
  };
}

export function descriptorCount({ listeners, admin }: Offer): number {
  let count = admin?.descriptors ?? 0;
  for (const { descriptors } of listeners) count += descriptors;
  return count;
}

/** The inverse of offerOf(). */
export function socketsOf({ listeners, admin }: Offer, descriptors: readonly number[]): Sockets {
  let used = 0;
  const take = (offered: OfferedSocket): InheritedSocket => {
    const own = descriptors.slice(used, used + offered.descriptors);
    used += offered.descriptors;
    return {
      address: {
        address: Uint8Array.from(Buffer.from(offered.address, 'hex')),
        port: offered.port,
        dualStack: offered.isDualStack,
      },
      ...(offered.on !== null && { on: offered.on }),
      descriptors: own,
      isKept: offered.isKept,
    };
  };
  return { listeners: listeners.map(take), admin: admin === null ? undefined : take(admin) };
}

function offeredSocket({ address, on, descriptors, isKept }: InheritedSocket): OfferedSocket {
  return {
    address: Buffer.from(address.address).toString('hex'),
    port: address.port,
    isDualStack: address.dualStack === true,
    on: on ?? null,
    isKept,
    descriptors: descriptors.length,
  };
}
