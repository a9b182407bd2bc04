// Captures the ClientHellos of real clients as samples for the codec's tests: listens on loopback, lets each
// client dial it, keeps the bytes of its first flight and hangs up. Writes src/wire/samples/<client>.hex; the expected
// parse results are in src/wire/hello.samples.ts, by hand. Run with the Node that npm installs:
//
//   node scripts/capture-hellos.ts          all; needs openssl, gnutls-cli, curl, go, java (17) and chromium
//   node scripts/capture-hellos.ts go node  these only

import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';

const NAME = 'api.managed1.linuxera.lab';
const SAMPLES = new URL('../src/wire/samples/', import.meta.url);
const http = ['h2', 'http/1.1'];

/** A first flight is complete when nothing has arrived for this long: the client waits for the server. */
const QUIET_MS = 500;
/** Browsers and `go run` take long to start. */
const GIVE_UP_MS = 60_000;

/** Dials the port. Ends once the listener hangs up, or on the signal. */
type Dial = (port: number, folder: string, signal: AbortSignal) => Promise<void>;

const goProgram = `package main
import ("crypto/tls"; "os"; "strings")
func main() {
  config := &tls.Config{ServerName: os.Args[2], InsecureSkipVerify: true}
  if os.Args[3] != "" { config.NextProtos = strings.Split(os.Args[3], ",") }
  if connection, err := tls.Dial("tcp", "127.0.0.1:" + os.Args[1], config); err == nil { connection.Close() }
}
`;

const javaProgram = `import javax.net.ssl.*;
public class Hello {
  public static void main(String[] args) throws Exception {
    SSLSocket socket = (SSLSocket) SSLSocketFactory.getDefault().createSocket("127.0.0.1", Integer.parseInt(args[0]));
    SSLParameters parameters = socket.getSSLParameters();
    parameters.setServerNames(java.util.List.of(new SNIHostName(args[1])));
    parameters.setApplicationProtocols(new String[] {"h2", "http/1.1"});
    socket.setSSLParameters(parameters);
    try { socket.startHandshake(); } catch (java.io.IOException refused) { }
  }
}
`;

const clients: Readonly<Record<string, Dial>> = {
  openssl: dialOpenssl('-servername', NAME),
  'openssl-tls12': dialOpenssl('-no_tls1_3', '-servername', NAME),
  'openssl-no-sni': dialOpenssl('-noservername'),
  // `-bugs` adds the padding extension (RFC 7685), which fills up to 512 bytes.
  'openssl-padded': dialOpenssl('-bugs', '-servername', NAME, '-alpn', http.join()),
  gnutls: dialGnutls(`--sni-hostname=${NAME}`),
  'gnutls-tls12': dialGnutls(
    `--sni-hostname=${NAME}`,
    '--priority=NORMAL:-VERS-ALL:+VERS-TLS1.2',
    ...http.map(protocol => `--alpn=${protocol}`),
  ),
  go: dialGo(NAME, ''),
  'go-h2': dialGo(NAME, http.join()),
  'go-no-sni': dialGo('127.0.0.1', ''),
  java: dialJava,
  curl: dialCurl,
  chromium: dialChromium,
  node: dialNode(NAME),
  'node-no-sni': dialNode(''),
};

const wanted = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(clients);
await mkdir(SAMPLES, { recursive: true });
for (const client of wanted) {
  try {
    const bytes = await capture(clients[client]);
    const lines = bytes.toString('hex').match(/.{1,100}/g) ?? [];
    await writeFile(new URL(`${client}.hex`, SAMPLES), `${lines.join('\n')}\n`);
    process.stderr.write(`${client}: ${bytes.length} bytes\n`);
  } catch (error) {
    process.stderr.write(`${client}: ${(error as Error).message}\n`);
    process.exitCode = 1;
  }
}

/** The first flight of the first connection that sends anything. */
async function capture(dial: Dial): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), 'hello-'));
  const stop = new AbortController();
  const flight = Promise.withResolvers<Buffer>();
  const sockets = new Set<Socket>();
  const server = createServer(socket => {
    const parts: Buffer[] = [];
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', part => {
      parts.push(part as Buffer);
      socket.setTimeout(QUIET_MS, () => flight.resolve(Buffer.concat(parts)));
    });
  });
  const late = setTimeout(() => flight.reject(new Error('No hello arrived')), GIVE_UP_MS);
  try {
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const dialled = dial(port, folder, stop.signal);
    dialled.catch(flight.reject);
    const bytes = await flight.promise;
    for (const socket of sockets) socket.destroy();
    stop.abort();
    await dialled;
    return bytes;
  } finally {
    clearTimeout(late);
    stop.abort();
    for (const socket of sockets) socket.destroy();
    server.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}

/** Runs a program until it ends or is aborted; only a failure to start it is an error. */
function run(program: string, args: readonly string[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['pipe', 'ignore', 'ignore'] });
    child.on('error', reject);
    child.on('exit', () => resolve());
    signal.addEventListener('abort', () => child.kill());
  });
}

function dialOpenssl(...options: string[]): Dial {
  return (port, _, signal) =>
    run('openssl', ['s_client', '-connect', `127.0.0.1:${port}`, ...options], signal);
}

function dialGnutls(...options: string[]): Dial {
  return (port, _, signal) =>
    run('gnutls-cli', ['--insecure', ...options, '-p', `${port}`, '127.0.0.1'], signal);
}

function dialGo(name: string, protocols: string): Dial {
  return async (port, folder, signal) => {
    await writeFile(join(folder, 'hello.go'), goProgram);
    await run('go', ['run', join(folder, 'hello.go'), `${port}`, name, protocols], signal);
  };
}

async function dialJava(port: number, folder: string, signal: AbortSignal): Promise<void> {
  await writeFile(join(folder, 'Hello.java'), javaProgram);
  await run('java', [join(folder, 'Hello.java'), `${port}`, NAME], signal);
}

function dialCurl(port: number, _: string, signal: AbortSignal): Promise<void> {
  const resolve = `${NAME}:${port}:127.0.0.1`;
  return run('curl', ['-sk', '--noproxy', '*', '--resolve', resolve, `https://${NAME}:${port}/`], signal);
}

function dialChromium(port: number, folder: string, signal: AbortSignal): Promise<void> {
  const options = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--no-proxy-server',
    `--user-data-dir=${join(folder, 'profile')}`,
    '--host-resolver-rules=MAP * 127.0.0.1',
  ];
  return run('chromium', [...options, `https://${NAME}:${port}/`], signal);
}

/** This Node. An empty server name sends none, as when an address is dialled. */
function dialNode(servername: string): Dial {
  return (port, _, signal) =>
    new Promise(resolve => {
      const options = { host: '127.0.0.1', port, servername, ALPNProtocols: http };
      const socket = connectTls({ ...options, rejectUnauthorized: false });
      socket.on('error', () => {});
      socket.on('close', () => resolve());
      signal.addEventListener('abort', () => socket.destroy());
    });
}
