// One UDP socket of the DNS server: a datagram in, at most one out.

import { createSocket, type Socket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import type { AnswerQuery } from '../answer-query.ts';

/** Room for a burst while the thread rebuilds its zones. The kernel may give less. */
const RECEIVE_BYTES = 4 << 20;
const SEND_BYTES = 1 << 20;

export interface Serving {
  /** Never throws: faults are reported elsewhere. */
  readonly answer: AnswerQuery;
  /** Room for the largest answer. */
  readonly scratch: Buffer;
}

export interface EndpointOptions {
  readonly address: string;
  /** 0 means any free port. */
  readonly port: number;
  readonly reusePort: boolean;
}

export async function openUdp(options: EndpointOptions, serving: Serving): Promise<Socket> {
  const { address, port, reusePort } = options;
  const isV6 = isIPv6(address);
  const socket = createSocket({
    type: isV6 ? 'udp6' : 'udp4',
    ipv6Only: isV6,
    reusePort,
    // Only addresses are sent to, so an answer leaves within the same turn.
    lookup: (host, _, callback) => callback(null, host, isV6 ? 6 : 4),
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject);
    socket.bind({ address, port, exclusive: true }, () => {
      socket.off('error', reject);
      resolve();
    });
  });
  // An answer that cannot be sent, to a port 0 for example, is lost like any datagram.
  socket.on('error', () => {});
  for (const [set, bytes] of [
    ['setRecvBufferSize', RECEIVE_BYTES],
    ['setSendBufferSize', SEND_BYTES],
  ] as const) {
    try {
      socket[set](bytes);
    } catch {
      // The default is enough for most.
    }
  }
  const { scratch } = serving;
  socket.on('message', (query, from) => {
    const { length } = serving.answer(query, 0, query.length, false, scratch);
    if (length === 0 || from.port === 0) return;
    // A copy: what cannot be sent at once waits, and the scratch buffer is used again.
    socket.send(Buffer.from(scratch.subarray(0, length)), 0, length, from.port, from.address);
  });
  return socket;
}
