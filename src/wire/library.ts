// What `import … from 'causeway/wire'` gives other programs (docs/wire.md): the codecs of this folder that stand for
// themselves. What is here keeps its name and meaning over versions; library.test.ts lists it.

export { type ClientHello, MAX_HELLO, parseClientHello } from './client-hello.ts';
export { connectName, type HttpHead, hostOf, MAX_HTTP_HEAD, parseHttpHead } from './http-head.ts';
export { type Cidr, formatIp, mapIp, parseCidr, parseIp } from './ip-address.ts';
export type { Parsed } from './parsed.ts';
export {
  buildProxyV1,
  buildProxyV2,
  type Endpoint,
  MAX_PROXY_HEADER,
  type ProxyHeader,
  parseProxyHeader,
  type Tlv,
} from './proxy-protocol.ts';
export { type Protocol, recognize } from './recognize.ts';
export { type Alert, alerts, tlsAlert } from './tls-alert.ts';
