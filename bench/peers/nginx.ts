// nginx with its stream module, routing by SNI with a map, which it compiles into a hash at startup. HTTP has its own
// port, the same added headers as ours, and backend connections with keep-alive.

import { access, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../testbed/free-port.ts';
import { findProgram } from '../../testbed/packages.ts';
import { startProgram } from '../../testbed/program.ts';
import { run } from '../../testbed/run.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { pin } from '../pinning.ts';
import { processTree } from '../process-usage.ts';
import { hostOf, type Routes, routeEntries } from '../routes.ts';
import type { Peer, PeerSetup } from './peer.ts';

export const nginx: Peer = {
  id: 'nginx',
  label: 'nginx',
  async start(setup) {
    const command = findProgram('nginx') ?? 'nginx';
    await using stack = new AsyncDisposableStack();
    const dir = stack.use(await tempDir());
    const map = dir.file('hosts.map');
    const port = await freePort();
    const webPort = await freePort();
    const file = dir.file('nginx.conf');
    const asRoot = process.getuid?.() === 0;
    const module = await streamModule(command);
    await writeFile(map, renderNginxMap(setup.routes));
    await writeFile(file, renderNginx({ ...setup, directory: dir.path, map, port, webPort, asRoot, module }));
    const program = stack.use(
      await startProgram({
        command,
        // -e: before it has read the file it would open the machine's own log.
        args: ['-p', dir.path, '-e', 'stderr', '-c', file],
        cwd: dir.path,
        ready: { log: new RegExp(`(start worker process \\d+[^]*){${setup.workers}}`) },
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
        await writeFile(`${map}.next`, renderNginxMap({ ...setup.routes, added }));
        const asked = process.hrtime.bigint();
        await rename(`${map}.next`, map);
        program.signal('SIGHUP');
        return asked;
      },
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  },
};

interface NginxFile extends PeerSetup {
  readonly directory: string;
  readonly map: string;
  readonly port: number;
  readonly webPort: number;
  readonly asRoot: boolean;
  /** Undefined if the stream module is built in. */
  readonly module: string | undefined;
}

export function renderNginx(file: NginxFile): string {
  // nginx counts each connection twice, and one worker may get nearly all of them.
  const files = 2 * file.connections + 256;
  // A roomy hash: nginx searches for a fitting size, which takes minutes if it is tight.
  const hashSize = Math.max(2048, 2 * file.routes.hosts);
  return `${file.module === undefined ? '' : `load_module ${file.module};\n`}daemon off;
pid ${file.directory}/nginx.pid;
error_log stderr notice;
${file.asRoot ? 'user root;\n' : ''}worker_processes ${file.workers};
worker_rlimit_nofile ${files};
events { worker_connections ${files}; }
stream {
  map_hash_max_size ${hashSize};
  map_hash_bucket_size 512;
  map $ssl_preread_server_name $backend { include ${file.map}; }
  server {
    listen 127.0.0.1:${file.port} backlog=4096;
    ssl_preread on;
    proxy_connect_timeout 3s;
    proxy_timeout 1h;
    proxy_pass $backend;
  }
}
${file.routes.web === true ? renderWeb(file) : ''}`;
}

function renderWeb({ directory, webPort, routes, connections }: NginxFile): string {
  return `http {
  access_log off;
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi;
  uwsgi_temp_path ${directory}/uwsgi;
  scgi_temp_path ${directory}/scgi;
  keepalive_requests 1000000000;
  upstream web {
    server 127.0.0.1:${routes.ports.web};
    keepalive ${connections};
    keepalive_requests 1000000000;
  }
  server { listen 127.0.0.1:${webPort} backlog=4096 default_server; return 421; }
  server {
    listen 127.0.0.1:${webPort};
    server_name ${hostOf('web')};
    location / {
      proxy_pass http://web;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto http;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_max_temp_file_size 0;
    }
  }
}
`;
}

export function renderNginxMap(routes: Routes): string {
  let map = '';
  for (const [host, to] of routeEntries(routes)) map += `${host} 127.0.0.1:${routes.ports[to]};\n`;
  return map;
}

/** The dynamic module's path, from nginx's compile options; undefined if it is built in. */
async function streamModule(command: string): Promise<string | undefined> {
  const { stderr } = await run(command, ['-V']);
  if (/--with-stream(\s|$)/.test(stderr)) return undefined;
  const modules = /--modules-path=(\S+)/.exec(stderr)?.[1] ?? '/usr/lib/nginx/modules';
  const path = join(modules, 'ngx_stream_module.so');
  await access(path);
  return path;
}
