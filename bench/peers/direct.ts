// No proxy: the maximum of the load generator and the kernel.

import type { Peer } from './peer.ts';

export const direct: Peer = {
  id: 'direct',
  label: 'no proxy',
  async start({ routes }) {
    return {
      port: to => routes.ports[to],
      processes: async () => [],
      [Symbol.asyncDispose]: async () => {},
    };
  },
};
