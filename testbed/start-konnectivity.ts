// Konnectivity (apiserver-network-proxy) in a test: the server beside an API server, and the agent in the tenant that
// dials it and opens connections in the tenant on its behalf.

import { connect, type Socket } from 'node:net';
import type { Authority } from './certificates.ts';
import { flag } from './flag.ts';
import { freePort } from './free-port.ts';
import { goBuild } from './go-build.ts';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';
import { type RunResult, run } from './run.ts';
import { tempDir } from './temp-dir.ts';

export interface KonnectivityServerOptions {
  /** Signs its certificate and those of permitted agents. */
  readonly authority: Authority;
  /** Names and addresses in its certificate, besides 127.0.0.1. */
  readonly sans?: readonly string[];
  /** Where agents connect. Default: 127.0.0.1 and any free port. */
  readonly bindAddress?: string;
  readonly agentPort?: number;
  /** Number of replicas: an agent keeps dialling until it has reached that many. Default 1. */
  readonly serverCount?: number;
  readonly netns?: Netns;
  readonly flags?: readonly string[];
}

export interface KonnectivityServer extends Program {
  /** Where agents connect. */
  readonly port: number;
  /** The unix socket for an API server's egress selector (HTTPConnect), or for any local client. */
  readonly socket: string;
  /** Opens a connection to an address as seen from an agent. Rejects if the server refuses. */
  dial(address: string): Promise<Socket>;
}

/** Starts a server, and resolves when it accepts agents. */
export async function startKonnectivityServer(
  options: KonnectivityServerOptions,
): Promise<KonnectivityServer> {
  const { authority, sans = [], bindAddress = '127.0.0.1', serverCount = 1, netns, flags = [] } = options;
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const port = options.agentPort ?? (await freePort());
  const socket = dir.file('server.sock');
  const health = await freePort();
  const { certFile, keyFile } = await authority.certificateFor('127.0.0.1', ...sans);
  const program = stack.use(
    await startProgram({
      command: await goBuild('konnectivity-server'),
      args: [
        '--mode=http-connect',
        `--uds-name=${socket}`,
        '--server-port=0',
        `--agent-bind-address=${bindAddress}`,
        `--agent-port=${port}`,
        `--cluster-cert=${certFile}`,
        `--cluster-key=${keyFile}`,
        `--cluster-ca-cert=${authority.certFile}`,
        `--server-count=${serverCount}`,
        '--health-bind-address=127.0.0.1',
        `--health-port=${health}`,
        `--admin-port=${await freePort()}`,
        ...flags,
      ],
      netns,
      // Its /readyz waits for an agent.
      ready: { probe: () => answers(`http://127.0.0.1:${health}/healthz`, netns) },
      stopSignal: 'SIGKILL',
    }),
  );
  const owned = stack.move();
  return {
    ...program,
    port,
    socket,
    dial: address => dial(socket, address),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export interface KonnectivityAgentOptions {
  /** `host:port` to dial: a server, or a proxy in front of it. The host is sent as SNI. */
  readonly server: string;
  /** Signs the certificates of the server and the agent. */
  readonly authority: Authority;
  readonly netns?: Netns;
  readonly flags?: readonly string[];
}

export interface KonnectivityAgent extends Program {
  /** Number of different servers that it is connected to. */
  servers(): Promise<number>;
}

/** Starts an agent, and resolves when it is connected to a server. */
export async function startKonnectivityAgent(options: KonnectivityAgentOptions): Promise<KonnectivityAgent> {
  const { server, authority, netns, flags = [] } = options;
  const [, host, port] = /^(.*):(\d+)$/.exec(server) ?? [];
  if (host === undefined)
    throw new Error(`Cannot start an agent as its server must be host:port: current value is '${server}'`);
  const health = await freePort();
  const { certFile, keyFile } = await authority.clientCertificate({ user: 'konnectivity-agent' });
  const program = await startProgram({
    command: await goBuild('konnectivity-agent'),
    args: [
      ...flag('--proxy-server-host', host),
      ...flag('--proxy-server-port', port),
      ...flag('--ca-cert', authority.certFile),
      ...flag('--agent-cert', certFile),
      ...flag('--agent-key', keyFile),
      '--health-server-host=127.0.0.1',
      `--health-server-port=${health}`,
      `--admin-server-port=${await freePort()}`,
      ...flags,
    ],
    netns,
    ready: { probe: () => answers(`http://127.0.0.1:${health}/readyz`, netns) },
    stopSignal: 'SIGKILL',
  });
  return {
    ...program,
    async servers() {
      const { stdout } = await fetchFrom(`http://127.0.0.1:${health}/metrics`, netns);
      const [, count] = /^\S*_agent_open_server_connections (\d+)$/m.exec(stdout.toString()) ?? [];
      return Number(count ?? 0);
    },
  };
}

async function answers(url: string, netns: Netns | undefined): Promise<boolean> {
  return (await fetchFrom(url, netns)).code === 0;
}

function fetchFrom(url: string, netns: Netns | undefined): Promise<RunResult> {
  return run('curl', ['--silent', '--fail', '--noproxy', '*', '--max-time', '5', url], { netns });
}

/** HTTP CONNECT over the server's unix socket, as an API server does it. */
async function dial(path: string, address: string): Promise<Socket> {
  const socket = connect({ path });
  socket.write(`CONNECT ${address} HTTP/1.1\r\nHost: ${address}\r\n\r\n`);
  let head = '';
  for (;;) {
    const byte = await readByte(socket);
    if (byte === undefined)
      throw new Error(`The konnectivity server closed after: ${head.trim() || 'nothing'}`);
    head += byte;
    if (head.endsWith('\r\n\r\n')) break;
  }
  if (/^HTTP\/1\.[01] 200 /.test(head)) return socket;
  socket.destroy();
  throw new Error(`The konnectivity server does not reach ${address}: ${head.trim()}`);
}

/** One byte at a time, so that everything after the head stays in the socket. */
async function readByte(socket: Socket): Promise<string | undefined> {
  for (;;) {
    const byte = socket.read(1) as Buffer | null;
    if (byte !== null) return byte.toString('latin1');
    if (socket.readableEnded || socket.destroyed) return undefined;
    await new Promise<void>(resolve => {
      const done = () => {
        for (const event of ['readable', 'end', 'error', 'close']) socket.off(event, done);
        resolve();
      };
      for (const event of ['readable', 'end', 'error', 'close']) socket.on(event, done);
    });
  }
}
