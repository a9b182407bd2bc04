// An HTTPS server in the test's own process that stands in for an API server: it asks for client certificates,
// remembers what it was asked, and answers as it is told. For what a real API server does not do.

import { readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { authority, type Certificate } from './certificates.ts';
import { kubeconfig } from './kubectl.ts';
import { tempDir } from './temp-dir.ts';

export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly host: string;
  readonly authorization: string;
  readonly contentType: string;
  /** SNI. */
  readonly name: string | false;
  /** Of the client's certificate. */
  readonly user: string;
  readonly body: string;
}

interface Reply {
  readonly status?: number;
  readonly body: string;
}

/** Undefined: no answer, or one that it writes itself. */
export type Answerer = (asked: Asked, response: ServerResponse) => Reply | undefined;

export async function startApiStandIn(
  names: readonly [string, ...string[]],
  answer: Answerer = () => ({ body: '{}' }),
) {
  const own = await authority();
  const { certFile, keyFile } = await own.certificateFor(...names);
  const [cert, key, ca] = await Promise.all([certFile, keyFile, own.certFile].map(file => readFile(file)));
  const asked: Asked[] = [];
  const server = createServer(
    { cert, key, ca, requestCert: true, rejectUnauthorized: false },
    async (request, response) => {
      const seen = await look(request);
      asked.push(seen);
      const reply = answer(seen, response);
      if (reply === undefined) return;
      response.writeHead(reply.status ?? 200, { 'Content-Type': 'application/json' }).end(reply.body);
    },
  );
  let connections = 0;
  server.on('secureConnection', () => void connections++);
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const dir = await tempDir();
  return {
    asked,
    connections: () => connections,
    dir,
    ca: own.certFile,
    at: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    /** Writes a kubeconfig and gives its path; the same one each time. */
    async kubeconfig(options: { server: string; ca?: string; serverName?: string; user?: Certificate }) {
      const { server, ca = own.certFile, serverName, user = { token: 'secret' } } = options;
      await writeFile(dir.file('config'), await kubeconfig({ server, caFile: ca, serverName, user }));
      return dir.file('config');
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
      await dir[Symbol.asyncDispose]();
    },
  };
}

async function look(request: IncomingMessage): Promise<Asked> {
  const socket = request.socket as TLSSocket;
  const { host = '', authorization = '', 'content-type': contentType = '' } = request.headers;
  const [name, user] = [socket.servername ?? false, String(socket.getPeerCertificate().subject?.CN ?? '')];
  let body = '';
  for await (const chunk of request) body += chunk;
  const { method = '', url = '' } = request;
  return { method, url, host, authorization, contentType, name, user, body };
}
