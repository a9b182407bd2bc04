// The minimal reverse proxy over node:http, as a yardstick: its cost is the module's own share. It serves
// `web` only.

import { startProgram } from '../../testbed/program.ts';
import { pin } from '../pinning.ts';
import { processTree } from '../process-usage.ts';
import type { Peer } from './peer.ts';

const PROGRAM = new URL('node-http-proxy.ts', import.meta.url).pathname;

export const nodeHttp: Peer = {
  id: 'node-http',
  label: 'node:http',
  async start({ routes, cores }) {
    const program = await startProgram({
      command: process.execPath,
      args: [PROGRAM, String(routes.ports.web)],
      ready: { log: /^listening on \d+$/m },
    });
    await pin(program.pid, cores);
    const port = Number(/^listening on (\d+)$/m.exec(program.log())?.[1]);
    return {
      port: () => port,
      processes: () => processTree(program.pid),
      [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
    };
  },
};
