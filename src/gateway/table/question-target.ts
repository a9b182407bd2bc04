// Parses the host given to explain: a name, `host:port`, or a URL.

import { QuestionError } from './explain.ts';
import { type Question, type questionProtocols } from './question.ts';

type Protocol = (typeof questionProtocols)[number];

const SCHEMES: Readonly<Record<string, { readonly protocol: Protocol; readonly port: number }>> = {
  'https:': { protocol: 'tls', port: 443 },
  'wss:': { protocol: 'tls', port: 443 },
  'http:': { protocol: 'http', port: 80 },
  'ws:': { protocol: 'http', port: 80 },
};
const HAS_SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i;
const HOST_PORT = /^([^:/[\]]+|\[[0-9a-f:.]+\]):(\d{1,5})$/i;

/** `protocol` is the requested one, which a URL must not contradict. Throws a QuestionError. */
export function questionTarget(
  text: string,
  protocol: Protocol | undefined,
): Pick<Question, 'host' | 'protocol' | 'port'> {
  if (!HAS_SCHEME.test(text)) {
    const [, host = text, port] = HOST_PORT.exec(text) ?? [];
    return {
      host: bare(host),
      protocol: protocol ?? 'tls',
      ...(port !== undefined && { port: Number(port) }),
    };
  }
  const url = URL.parse(text);
  const scheme = SCHEMES[url?.protocol ?? ''];
  if (url === null || scheme === undefined) {
    throw new QuestionError(`The host must be a name, or a URL with https or http: ${text}`);
  }
  if (protocol !== undefined && protocol !== scheme.protocol) {
    throw new QuestionError(
      `A URL with ${url.protocol.slice(0, -1)} is ${scheme.protocol}, not ${protocol}: ${text}`,
    );
  }
  const port = url.port === '' ? scheme.port : Number(url.port);
  return { host: bare(url.hostname), protocol: scheme.protocol, port };
}

function bare(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1');
}
