// Nobody in between: what the load generator and the kernel can do at most.

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
