// The program behind node-http.ts: forwards requests with unchanged headers to one backend, with keep-alive.

import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

const agent = new Agent({ keepAlive: true });
const port = Number(process.argv[2]);

const server = createServer((incoming, response) => {
  const { method, url: path, rawHeaders } = incoming;
  const headers = [...rawHeaders, 'X-Forwarded-For', incoming.socket.remoteAddress ?? ''];
  const upstream = request({ agent, host: '127.0.0.1', port, method, path, headers, setHost: false });
  upstream.on('response', answer => {
    response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
    answer.pipe(response);
  });
  upstream.on('error', () => response.destroy());
  incoming.pipe(upstream);
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`listening on ${(server.address() as AddressInfo).port}\n`);
});
