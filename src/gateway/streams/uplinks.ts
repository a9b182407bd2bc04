// Agents' uplinks over TLS. `tunnel`: TLS to a tunnel host, through any SNI router on the way; inside it, a PROXY v2
// header with the cluster id, then the client's own TLS, unchanged. `terminate`: the client's TLS ends here, and a new,
// verified one goes to the gateway.
//
// With `terminate`, ALPN must be settled before the client is answered: the gateway is dialled with the protocols of the
// client's hello, and the client gets the one that the gateway chose. Bearer tokens survive; client certificates cannot,
// and a client that uses one is reported in the log.

import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { MAX_HELLO, parseClientHello } from '../../wire/client-hello.ts';
import type { CloseReason } from '../close-reason.ts';
import { type FaultOwner, guard } from '../guard.ts';
import type { NetReactor } from '../io/net-reactor.ts';
import { DIALING, TLS } from '../shared/rows.ts';
import type { DataPath } from '../stages/data-path.ts';
import { clientWhileDialing, failedOverTls, reachedOverTls } from '../stages/dial.ts';
import { refuse } from '../stages/end.ts';
import { type GatewayConnection, GatewayDialer, GatewayError, type GatewayTls } from './dial-gateway.ts';
import { CERTIFICATE_LOST, type TerminateUplink, TUNNEL_ALPN, type TunnelUplink } from './tls-config.ts';
import { TlsStream } from './tls-stream.ts';

/**
 * A client's alert, in OpenSSL's words. They are always in the message, but not always in the code: once the gateway
 * has sent something, as an HTTP/2 server does at once, the code is EPROTO, from a write.
 */
const ALERT = /\b(?:tls|ssl)v\d+ alert [a-z ]+/;
/** A client that has connected sends its hello within a round trip. */
const HELLO_SOON_MS = 500;

export interface UplinkHooks {
  /** A problem for the log. */
  readonly trouble: (what: string, why: string) => void;
  /** No address of the gateway could be reached: perhaps its name resolves differently by now. */
  readonly dialFailed: () => void;
}

/** A client whose gateway is being dialled. */
interface Dialing extends FaultOwner {
  readonly client: number;
  readonly ended: AbortController;
  /** Called when the client has sent more. */
  clientSent: () => void;
  timer: NodeJS.Timeout | undefined;
}

export class TlsUplinks {
  readonly #path: DataPath;
  readonly #io: NetReactor;
  readonly #hooks: UplinkHooks;
  readonly #dialer = new GatewayDialer();
  readonly #dialing = new Map<number, Dialing>();
  #config: TunnelUplink | TerminateUplink | undefined;
  /** The certificate is loaded once, not for each client. */
  #context: SecureContext | undefined;

  constructor(path: DataPath, io: NetReactor, hooks: UplinkHooks) {
    this.#path = path;
    this.#io = io;
    this.#hooks = hooks;
  }

  /** Open connections are not affected. */
  configure(config: TunnelUplink | TerminateUplink | undefined): void {
    this.#config = config;
    this.#context =
      config?.kind === 'terminate'
        ? createSecureContext({ ...config.certificate, minVersion: 'TLSv1.2' })
        : undefined;
  }

  dial(client: number): void {
    const dialing: Dialing = {
      client,
      ended: new AbortController(),
      clientSent: () => {},
      timer: undefined,
      onFault: error => this.#path.contain(error, this.#dialing.get(client) === dialing ? client : -1, -1),
    };
    this.#dialing.set(client, dialing);
    const config = this.#config;
    if (config === undefined) return refuse(this.#path, client, 'no-backend');
    const work = config.kind === 'tunnel' ? this.#enter(dialing, config) : this.#terminate(dialing, config);
    work.catch((error: unknown) => dialing.onFault(error));
    clientWhileDialing(this.#path, client);
  }

  stop(): void {
    for (const client of this.#dialing.keys()) this.forget(client);
  }

  clientSent(client: number): void {
    this.#dialing.get(client)?.clientSent();
  }

  forget(client: number): void {
    const dialing = this.#dialing.get(client);
    if (dialing === undefined) return;
    this.#dialing.delete(client);
    clearTimeout(dialing.timer);
    dialing.ended.abort();
  }

  async #enter(dialing: Dialing, config: TunnelUplink): Promise<void> {
    const wrongProtocol = `${config.gateway.serverName} is not the end of a tunnel. Is it in tunnel.hosts of a gateway, and is its TLS passed through on the way?`;
    const gateway = await this.#reach(dialing, config, { ALPNProtocols: [TUNNEL_ALPN], wrongProtocol });
    if (gateway === undefined) return;
    if (gateway.tls.alpnProtocol === TUNNEL_ALPN) return this.#join(dialing, gateway);
    gateway.tls.on('error', () => {});
    gateway.tls.destroy();
    this.#hooks.trouble('gateway not reached', wrongProtocol);
    this.#path.run(dialing.client, () => failedOverTls(this.#path, dialing.client, 'other'));
  }

  async #terminate(dialing: Dialing, config: TerminateUplink): Promise<void> {
    const offered = await this.#readOffer(dialing);
    if (dialing.ended.signal.aborted) return;
    if (typeof offered === 'string')
      return this.#path.run(dialing.client, () => refuse(this.#path, dialing.client, offered));
    const gateway = await this.#reach(dialing, config, {
      ...(offered.length > 0 && { ALPNProtocols: [...offered] }),
      wrongProtocol: `${config.gateway.serverName} takes none of the protocols that the client offers (${offered.join(', ')}). Is --server-name a host of the API server?`,
    });
    if (gateway !== undefined) this.#answerClient(dialing, gateway);
  }

  /** The ALPN protocols of the client's hello, or why there is no hello. */
  async #readOffer(dialing: Dialing): Promise<readonly string[] | CloseReason> {
    const { rows, settings } = this.#path;
    const { client, ended } = dialing;
    const { promise, resolve } = Promise.withResolvers<readonly string[] | CloseReason>();
    const look = () => {
      const hello = parseClientHello(
        rows.held[client] ?? new Uint8Array(0),
        rows.understood[client],
        rows.heldTo[client],
      );
      const length = rows.heldTo[client] - rows.understood[client];
      if (hello.kind === 'found') resolve(hello.value.alpn);
      else if (hello.kind === 'reject' || length >= MAX_HELLO) resolve('bad-hello');
    };
    dialing.clientSent = look;
    const settle = guard(dialing, () => resolve('hello-timeout'));
    dialing.timer = setTimeout(settle, settings.helloMs);
    ended.signal.addEventListener('abort', settle);
    const offered = await promise;
    clearTimeout(dialing.timer);
    dialing.clientSent = () => {};
    return offered;
  }

  /** undefined when the client has ended, or was refused because the gateway was not reached. */
  async #reach(
    dialing: Dialing,
    { gateway }: TunnelUplink | TerminateUplink,
    options: GatewayTls,
  ): Promise<GatewayConnection | undefined> {
    const { client, ended } = dialing;
    try {
      const reached = await this.#dialer.dial(gateway, options, this.#path.settings, ended.signal);
      if (!ended.signal.aborted) return reached;
      // The client left just as the handshake was complete.
      reached.socket.resetAndDestroy();
      return undefined;
    } catch (error) {
      if (ended.signal.aborted) return undefined;
      if (!(error instanceof GatewayError)) throw error;
      this.#hooks.dialFailed();
      this.#hooks.trouble('gateway not reached', error.message);
      await this.#helloSoon(dialing);
      if (!ended.signal.aborted)
        this.#path.run(client, () => failedOverTls(this.#path, client, error.failure));
      return undefined;
    }
  }

  /** A refusal is an alert only once the client has sent its hello, which may be about to arrive. */
  async #helloSoon(dialing: Dialing): Promise<void> {
    const { rows } = this.#path;
    if (rows.protocol[dialing.client] === TLS) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const settle = guard(dialing, () => resolve());
    dialing.clientSent = settle;
    dialing.timer = setTimeout(settle, HELLO_SOON_MS);
    dialing.ended.signal.addEventListener('abort', settle);
    await promise;
    clearTimeout(dialing.timer);
  }

  /** The gateway is reached: ends the client's TLS, with the protocol that the gateway chose. */
  #answerClient(dialing: Dialing, gateway: GatewayConnection): void {
    const { rows, holds } = this.#path;
    const { client } = dialing;
    const held = rows.held[client];
    const first = held?.slice(rows.understood[client], rows.heldTo[client]) ?? new Uint8Array(0);
    if (held !== undefined) holds.give(held);
    rows.held[client] = undefined;
    rows.heldTo[client] = 0;
    rows.understood[client] = 0;
    const { alpnProtocol } = gateway.tls;
    const late = () => this.#path.run(client, () => refuse(this.#path, client, 'hello-timeout'));
    dialing.timer = setTimeout(guard(dialing, late), this.#path.settings.helloMs);
    const reset = guard(dialing, () => gateway.socket.resetAndDestroy());
    dialing.ended.signal.addEventListener('abort', reset);
    this.#io.wrap(client, first, socket => {
      const tls = new TLSSocket(socket, {
        isServer: true,
        secureContext: this.#context,
        ...(typeof alpnProtocol === 'string' && { ALPNProtocols: [alpnProtocol] }),
        // Requested only to detect clients that would use one.
        requestCert: true,
        rejectUnauthorized: false,
      });
      tls.once(
        'secure',
        guard(dialing, () => {
          this.#reportCertificate(tls);
          this.#join(dialing, gateway);
        }),
      );
      tls.once(
        'error',
        guard(dialing, (error: Error) => this.#clientFailed(dialing, error)),
      );
      return new TlsStream(tls, socket, dialing);
    });
  }

  #reportCertificate(tls: TLSSocket): void {
    const { subject } = tls.getPeerCertificate() as { subject?: { CN?: string } };
    if (subject === undefined) return;
    this.#hooks.trouble(
      CERTIFICATE_LOST,
      `a client presented a certificate (${subject.CN ?? 'without a name'}), which the API server cannot see, since TLS ends here. Use a token, or an uplink that passes TLS through: tunnel, proxy or connect`,
    );
  }

  /** The client's handshake failed. */
  #clientFailed({ client, ended }: Dialing, error: Error): void {
    if (ended.signal.aborted || this.#path.rows.state[client] !== DIALING) return;
    const alert = ALERT.exec(error.message)?.[0];
    if (alert !== undefined) this.#hooks.trouble('client left', explainAlert(alert));
    const reason = alert === undefined ? 'bad-hello' : 'client-gone';
    this.#path.run(client, () => refuse(this.#path, client, reason));
  }

  #join(dialing: Dialing, gateway: GatewayConnection): void {
    const { client, ended } = dialing;
    if (ended.signal.aborted) return;
    clearTimeout(dialing.timer);
    this.#dialing.delete(client);
    const handle = this.#io.adopt(new TlsStream(gateway.tls, gateway.socket, dialing));
    if (handle < 0) gateway.tls.destroy();
    this.#path.run(client, () => {
      if (handle < 0) failedOverTls(this.#path, client, 'exhausted');
      else reachedOverTls(this.#path, client, handle);
    });
  }
}

function explainAlert(alert: string): string {
  return `a client refused the certificate in --cert-file: ${alert}. Is it for the address that clients dial, and do they know who signed it?`;
}
