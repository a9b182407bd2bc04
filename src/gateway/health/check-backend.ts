// One check of one backend: whether it answers and, if not, a short reason. Only the head of the answer is read, and
// nothing is kept.
//
// Certificates are not verified: the gateway passes TLS through and does not have the tenant's CA. A check tells
// whether a backend answers; the client, which has the CA, decides whether it is the right one.

import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import { buildProxyV1, buildProxyV2 } from '../../wire/proxy-protocol.ts';
import { type FaultOwner, guard } from '../guard.ts';
import type { HealthTarget } from './health-target.ts';
import { http } from './node-http.ts';

export interface CheckResult {
  /** undefined: the check could not be made, for a reason on our side. */
  readonly ok: boolean | undefined;
  readonly why: string;
}

/** What the check waits for; named in the reason when it does not come. */
type Stage = 'connection' | 'TLS handshake' | 'HTTP answer';

/** Servers too old for a browser count as alive, too. Created once, because it takes a millisecond. */
const anyTls = createSecureContext({ ca: [], minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' });

/** How long a server may take to close after a good handshake. */
const GOODBYE_MS = 250;

/** An API server that asks for a login is up. */
const WANTS_LOGIN = [401, 403];

/** This machine has run out of a resource, which says nothing about the backend. */
const ownFaults = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']);

const reasonByCode: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'connection timed out',
  ERR_SSL_WRONG_VERSION_NUMBER: 'the answer is not TLS',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'the answer is not TLS',
};

/** Tries the addresses in turn, the last good one first; they share the time limit. Rejects if our own code throws. */
export async function checkBackend(
  target: HealthTarget,
  preferred: number,
): Promise<CheckResult & { readonly preferred: number }> {
  const { addresses, health } = target;
  if (target.isPending) return { ok: undefined, why: 'name not looked up yet', preferred: 0 };
  const deadline = performance.now() + health.timeoutMs;
  let result: CheckResult = { ok: false, why: 'name not found' };
  for (let tried = 0; tried < addresses.length; tried++) {
    const at = (preferred + tried) % addresses.length;
    const limitMs = (deadline - performance.now()) / (addresses.length - tried);
    if (limitMs <= 0) break;
    result = await new Attempt(target, addresses[at], limitMs).result;
    if (result.ok === true) return { ...result, preferred: at };
  }
  return { ...result, preferred: 0 };
}

class Attempt implements FaultOwner {
  readonly result: Promise<CheckResult>;
  readonly #target: HealthTarget;
  readonly #socket: Socket;
  readonly #resolve: (result: CheckResult) => void;
  readonly #reject: (error: unknown) => void;
  #timer: NodeJS.Timeout;
  #decided = false;
  #stage: Stage = 'connection';

  constructor(target: HealthTarget, address: string, limitMs: number) {
    this.#target = target;
    const { promise, resolve, reject } = Promise.withResolvers<CheckResult>();
    this.result = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#timer = setTimeout(
      guard(this, () => this.#end(false, `no ${this.#stage} within ${seconds(limitMs)}`)),
      limitMs,
    );
    this.#socket = connect({ host: address, port: target.port, noDelay: true });
    this.#socket.on('error', this.#onError);
    this.#socket.once(
      'connect',
      guard(this, () => this.#connected()),
    );
  }

  onFault(error: unknown): void {
    clearTimeout(this.#timer);
    this.#socket.destroy();
    this.#reject(error);
  }

  readonly #onError = guard(this, (error: NodeJS.ErrnoException) => this.#failed(error));

  #connected(): void {
    const { health, proxyProtocol } = this.#target;
    const header = proxyHeader[proxyProtocol];
    if (health.check === 'tcp') {
      // Ends only once the header is with the kernel: closing the socket would lose it.
      if (header === undefined) this.#end(true, 'connected');
      else
        this.#socket.write(
          header,
          guard(this, (error?: Error | null) => error ?? this.#end(true, 'connected')),
        );
      return;
    }
    if (header !== undefined) this.#socket.write(header);
    if (health.check === 'http') this.#ask(this.#socket);
    else this.#handshake(health.check === 'https');
  }

  #handshake(https: boolean): void {
    const { serverName } = this.#target;
    this.#stage = 'TLS handshake';
    const secure = connectTls({
      socket: this.#socket,
      secureContext: anyTls,
      rejectUnauthorized: false,
      ...(https && { ALPNProtocols: ['http/1.1'] }),
      ...(serverName !== undefined && { servername: serverName }),
    });
    secure.on('error', this.#onError);
    secure.once(
      'secureConnect',
      guard(this, () => {
        if (https) this.#ask(secure);
        else this.#closeCleanly(secure, 'TLS handshake done');
      }),
    );
  }

  #ask(stream: Socket | TLSSocket): void {
    const { health, host } = this.#target;
    this.#stage = 'HTTP answer';
    const asked = http.request({
      createConnection: () => stream,
      path: health.path ?? '/',
      setHost: false,
      headers: { Host: host, 'User-Agent': 'causeway-health', Connection: 'close' },
    });
    asked.on('error', this.#onError);
    asked.once(
      'response',
      guard(this, ({ statusCode = 0 }: IncomingMessage) => {
        // With a path, `http` judges the status; without one, any response means that the backend is up.
        const any = health.check === 'http' && health.path === undefined;
        const good = (statusCode >= 200 && statusCode < 400) || WANTS_LOGIN.includes(statusCode);
        this.#end(any || good, `HTTP ${statusCode}`);
      }),
    );
    asked.end();
  }

  /**
   * Sends close_notify and reads until the server closes: closing with unread session tickets sends a reset, which may
   * overtake the last message of the handshake, and then each check would be an error in the server's log.
   */
  #closeCleanly(secure: TLSSocket, why: string): void {
    clearTimeout(this.#timer);
    this.#decided = true;
    const done = guard(this, () => this.#end(true, why));
    this.#timer = setTimeout(done, GOODBYE_MS);
    secure.once('close', done);
    secure.resume();
    secure.end();
  }

  #failed(error: NodeJS.ErrnoException): void {
    if (this.#decided) return;
    const { code = '' } = error;
    if (ownFaults.has(code)) return this.#end(undefined, `this machine cannot check: ${code}`);
    // OpenSSL's message for every alert it receives: the backend speaks TLS.
    const alert = /SSL alert number (\d+)/.exec(error.message);
    if (alert !== null) {
      const why = `TLS alert ${alert[1]}`;
      return this.#end(this.#target.health.check === 'tls', why);
    }
    if (code === 'ECONNRESET' && this.#stage !== 'connection')
      return this.#end(false, `connection closed, no ${this.#stage}`);
    if (code.startsWith('HPE_')) return this.#end(false, 'the answer is not HTTP');
    if (code.startsWith('ERR_SSL_'))
      return this.#end(
        false,
        reasonByCode[code] ?? `no TLS handshake: ${code.slice(8).toLowerCase().replaceAll('_', ' ')}`,
      );
    this.#end(false, reasonByCode[code] ?? error.message);
  }

  /** The first call counts; later ones come from closing the socket. */
  #end(ok: boolean | undefined, why: string): void {
    clearTimeout(this.#timer);
    this.#socket.destroy();
    this.#resolve({ ok, why });
  }
}

/** A check is not on behalf of a client: LOCAL, or UNKNOWN in version 1. */
const proxyHeader = {
  none: undefined,
  v1: buildProxyV1(undefined, undefined),
  v2: buildProxyV2({}),
} as const;

function seconds(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)}ms` : `${Math.round(ms / 100) / 10}s`;
}
