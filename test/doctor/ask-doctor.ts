// Runs the doctor in this process with the real network, and a resolver and a clock that a test can break; and TLS
// servers that behave as a test wants.

import { readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createSecureServer } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import type { Lookup, LookupAnswer } from '../../src/dns/check-hosts.ts';
import type { Check } from '../../src/doctor/check.ts';
import { type DoctorOptions, diagnose } from '../../src/doctor/diagnose.ts';
import { nodeNetwork } from '../../src/doctor/node-network.ts';
import type { Repair } from '../../src/doctor/repair.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { Certificate } from '../../testbed/certificates.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

export interface Asked {
  /** Of everything that is not ok, in their order. */
  readonly codes: readonly string[];
  readonly checks: readonly Check[];
  readonly notChecked: readonly string[];
  readonly repairs: readonly Repair[];
  /** Why nothing could be checked. */
  readonly sentences: readonly string[];
}

export type Question = Partial<Omit<DoctorOptions, 'file'>> & {
  readonly config: string;
  /** How far the clock of this machine is ahead. */
  readonly aheadMs?: number;
  /** While repairs can still be made. */
  readonly use?: (asked: Asked) => Promise<void>;
};

export async function askDoctor({ config, aheadMs = 0, use, ...options }: Question): Promise<Asked> {
  await using dir = await tempDir();
  await writeFile(dir.file('causeway.yaml'), config);
  using resources = new DisposableStack();
  const outcome = await diagnose(
    {
      file: dir.file('causeway.yaml'),
      network: nodeNetwork,
      lookup: async () => answered(),
      clock: { ...systemClock, date: () => new Date(Date.now() + aheadMs) },
      adminOf: () => undefined,
      environment: {},
      uid: undefined,
      ...options,
    },
    resources,
  );
  const asked =
    outcome.kind === 'impossible'
      ? { codes: [], checks: [], notChecked: [], repairs: [], sentences: outcome.sentences }
      : {
          codes: outcome.diagnosis.checks.filter(({ status }) => status !== 'ok').map(({ code }) => code),
          checks: outcome.diagnosis.checks,
          notChecked: outcome.diagnosis.notChecked.map(({ step, why }) => `${step}: ${why}`),
          repairs: outcome.repairs,
          sentences: [],
        };
  await use?.(asked);
  return asked;
}

/** As a resolver answers; without addresses there is no such name. */
function answered(...addresses: readonly string[]): LookupAnswer {
  return { status: addresses.length === 0 ? 'no-name' : 'answered', addresses, chain: [] };
}

export function lookupOf(names: Readonly<Record<string, string>>): Lookup {
  return async (name, type) => answered(...(type === 'A' && names[name] !== undefined ? [names[name]] : []));
}

export interface StandIn extends AsyncDisposable {
  readonly port: number;
}

export interface HttpsOptions {
  readonly certificate: Certificate;
  /** Only HTTP/1.1. */
  readonly isOld?: boolean;
  readonly answer?: (request: IncomingMessage, response: ServerResponse) => void;
}

/** As an API server or an ingress. */
export async function startHttps(options: HttpsOptions): Promise<StandIn> {
  const { certificate, isOld = false, answer = ready } = options;
  const [cert, key] = await Promise.all([readFile(certificate.certFile), readFile(certificate.keyFile)]);
  const take = (request: unknown, response: unknown) =>
    answer(request as IncomingMessage, response as ServerResponse);
  const server = isOld
    ? createHttpsServer({ cert, key }, take)
    : createSecureServer({ cert, key, allowHTTP1: true }, take);
  return listening(server as unknown as Server);
}

/** A TLS server that does what it is told after the handshake. */
export async function startTls(
  certificate: Certificate,
  alpn: readonly string[],
  then: (socket: TLSSocket) => void,
): Promise<StandIn> {
  const [cert, key] = await Promise.all([readFile(certificate.certFile), readFile(certificate.keyFile)]);
  return listening(createTlsServer({ cert, key, ALPNProtocols: [...alpn] }, then));
}

export function startTcp(then: (socket: Socket) => void): Promise<StandIn> {
  return listening(createTcpServer(then));
}

function ready(_: IncomingMessage, response: ServerResponse): void {
  response.end('ok');
}

async function listening(server: Server): Promise<StandIn> {
  const open = new Set<Socket>();
  server.on('connection', socket => {
    open.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => open.delete(socket));
  });
  server.on('tlsClientError', () => {});
  server.on('secureConnection', (socket: TLSSocket) => void socket.on('error', () => {}));
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await new Promise(resolve => server.close(resolve));
    },
  };
}
