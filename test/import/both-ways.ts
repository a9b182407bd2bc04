// A proxy and our gateway side by side: the original configuration in the real program, its import in ours, both with
// ports of this test and with backends that name themselves. `answers()` asks both.

import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { freePort } from '../../testbed/free-port.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { bytes, hello } from '../features/given.ts';

export interface Original {
  /** The configuration, as it was imported. */
  readonly text: string;
  /** `address:port` of servers, as in the text, to the name that they answer with. */
  readonly servers: Readonly<Record<string, string>>;
  /** Ports as in the text. */
  readonly ports: readonly number[];
  /** How the text says that it listens on a port. */
  listenAt(text: string, port: number, local: number): string;
}

export interface BothWays extends AsyncDisposable {
  readonly gateway: Causeway;
  /** The names of the backends that answered; undefined for a refusal. */
  tls(port: number, host: string, header?: Uint8Array): Promise<Answers>;
  http(port: number, host: string): Promise<Answers>;
}

export interface Answers {
  readonly original: string | undefined;
  readonly imported: string | undefined;
}

/** `start` runs the rewritten configuration in the real program. */
export async function bothWays(
  original: Original,
  yaml: string,
  start: (config: string) => Promise<AsyncDisposable>,
): Promise<BothWays> {
  await using stack = new AsyncDisposableStack();
  let theirs = original.text;
  let ours = yaml.replace(/^ *health: .*\n/gm, '').replace(/^# Not carried over:[^]*$/m, '');
  for (const [address, name] of Object.entries(original.servers)) {
    const server = stack.use(await startNamed(name));
    theirs = theirs.replaceAll(address, `127.0.0.1:${server.port}`);
    ours = ours.replaceAll(address, `127.0.0.1:${server.port}`);
  }
  const ports = new Map<number, { theirs: number; ours: number }>();
  for (const port of original.ports) {
    const local = { theirs: await freePort(), ours: await freePort() };
    ports.set(port, local);
    theirs = original.listenAt(theirs, port, local.theirs);
    ours = ours.replace(new RegExp(`"[^"]*:${port}"`), `"127.0.0.1:${local.ours}"`);
  }
  stack.use(await start(theirs));
  const gateway = stack.use(await startCauseway({ config: ours }));
  const both = async (port: number, said: Uint8Array): Promise<Answers> => {
    const local = ports.get(port);
    if (local === undefined) throw new Error(`The configuration has no port ${port}`);
    const [one, other] = await Promise.all([ask(local.theirs, said), ask(local.ours, said)]);
    return { original: one, imported: other };
  };
  const owned = stack.move();
  return {
    gateway,
    tls: (port, host, header = new Uint8Array()) => both(port, bytes(header, hello(host))),
    http: (port, host) => both(port, bytes(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Answers TLS with its name and the end, and HTTP with its name as the body. */
async function startNamed(name: string): Promise<AsyncDisposable & { readonly port: number }> {
  const server: Server = createServer(socket => {
    socket.on('error', () => {});
    socket.once('data', data => {
      const isHttp = data.toString('latin1').includes('HTTP/1.1');
      const body = `<${name}>`;
      const head = `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
      socket.end(isHttp ? head + body : body);
    });
  });
  server.listen({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  return {
    port: (server.address() as { port: number }).port,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, 'close');
    },
  };
}

async function ask(port: number, said: Uint8Array): Promise<string | undefined> {
  const socket = connect({ port, host: '127.0.0.1' });
  const heard: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => heard.push(chunk));
  socket.on('error', () => {});
  socket.write(said);
  await once(socket, 'close');
  return /<([^<>]+)>$/.exec(Buffer.concat(heard).toString('latin1'))?.[1];
}
