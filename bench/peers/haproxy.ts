// HAProxy as Debian's unit starts it (master and worker, for reloads), routing by SNI with a map: one
// tree look-up, whatever the number of hosts. HTTP has its own port in `mode http`, with the same added headers
// as ours and backend connections shared by all clients. Health checks, logging and TCP keepalive are off, in
// its favour. Splicing is off, as by default.

import { rename, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { freePort } from '../../testbed/free-port.ts';
import { findProgram } from '../../testbed/packages.ts';
import { startProgram } from '../../testbed/program.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { pin } from '../pinning.ts';
import { processTree } from '../process-usage.ts';
import { backendKinds, type Routes, routeEntries } from '../routes.ts';
import type { Peer, PeerSetup } from './peer.ts';

export interface HaproxyVariant {
  readonly id: string;
  readonly label: string;
  /** `tune.bufsize`; its default is 16 KiB. */
  readonly bufferBytes?: number;
  /** How to add a host: a new map file and a reload, or `add map` on the runtime socket. */
  readonly adds?: 'reload' | 'runtime';
}

export const haproxyDefault: HaproxyVariant = { id: 'haproxy', label: 'HAProxy' };
export const haproxyLargeBuffers: HaproxyVariant = {
  id: 'haproxy-256k',
  label: 'HAProxy, 256 KiB buffers',
  bufferBytes: 262_144,
};

export function haproxy(variant: HaproxyVariant): Peer {
  return {
    id: variant.id,
    label: variant.label,
    async start(setup) {
      await using stack = new AsyncDisposableStack();
      const dir = stack.use(await tempDir());
      const files = { map: dir.file('hosts.map'), socket: dir.file('runtime.sock') };
      const port = await freePort();
      const webPort = await freePort();
      const file = dir.file('haproxy.cfg');
      await writeFile(files.map, renderHaproxyMap(setup.routes));
      await writeFile(
        file,
        renderHaproxy({ ...setup, ...files, port, webPort, bufferBytes: variant.bufferBytes }),
      );
      const program = stack.use(
        await startProgram({
          command: findProgram('haproxy') ?? 'haproxy',
          args: ['-W', '-db', '-f', file],
          cwd: dir.path,
          ready: {
            probe: async () => (await ask(files.socket, 'show info').catch(() => '')).includes('Uptime'),
          },
        }),
      );
      await pin(program.pid, setup.cores);
      const owned = stack.move();
      const added = [...setup.routes.added];
      return {
        port: to => (to === 'web' ? webPort : port),
        processes: () => processTree(program.pid),
        async addHost(host) {
          added.push(host);
          if (variant.adds === 'runtime') {
            const asked = process.hrtime.bigint();
            await ask(files.socket, `add map ${files.map} ${host} answer`);
            return asked;
          }
          await writeFile(`${files.map}.next`, renderHaproxyMap({ ...setup.routes, added }));
          const asked = process.hrtime.bigint();
          await rename(`${files.map}.next`, files.map);
          program.signal('SIGUSR2');
          return asked;
        },
        [Symbol.asyncDispose]: () => owned.disposeAsync(),
      };
    },
  };
}

interface HaproxyFile extends PeerSetup {
  readonly map: string;
  readonly socket: string;
  readonly port: number;
  readonly webPort: number;
  readonly bufferBytes: number | undefined;
}

export function renderHaproxy(file: HaproxyFile): string {
  const backends = backendKinds
    .filter(kind => kind !== 'web')
    .map(kind => `backend ${kind}\n  server one 127.0.0.1:${file.routes.ports[kind]}\n`);
  if (file.routes.web === true) backends.push(renderWeb(file));
  return `global
  stats socket ${file.socket} mode 600 level admin expose-fd listeners
  nbthread ${file.workers}
  maxconn ${file.connections}
${file.bufferBytes === undefined ? '' : `  tune.bufsize ${file.bufferBytes}\n`}
defaults
  mode tcp
  timeout connect 3s
  timeout client 1h
  timeout server 1h

frontend front
  bind 127.0.0.1:${file.port}
  tcp-request inspect-delay 5s
  tcp-request content accept if { req.ssl_hello_type 1 }
  use_backend %[req.ssl_sni,lower,map(${file.map})]

${backends.join('\n')}`;
}

function renderWeb({ map, webPort, routes }: HaproxyFile): string {
  return `frontend web-front
  mode http
  bind 127.0.0.1:${webPort}
  option forwardfor
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  use_backend %[req.hdr(host),lower,map(${map})]

backend web
  mode http
  http-reuse always
  server one 127.0.0.1:${routes.ports.web}
`;
}

export function renderHaproxyMap(routes: Routes): string {
  let map = '';
  for (const [host, to] of routeEntries(routes)) map += `${host} ${to}\n`;
  return map;
}

function ask(path: string, command: string): Promise<string> {
  const socket = connect({ path });
  socket.write(`${command}\n`);
  return text(socket);
}
