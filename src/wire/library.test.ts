import assert from 'node:assert/strict';
import { test } from 'node:test';
import { helloMessage, inRecords, serverNameExtension } from './hello.samples.ts';
import * as library from './library.ts';

test('the library exports what docs/wire.md lists, and nothing else', () => {
  assert.deepEqual(Object.keys(library).toSorted(), [
    'MAX_HELLO',
    'MAX_HTTP_HEAD',
    'MAX_PROXY_HEADER',
    'alerts',
    'buildProxyV1',
    'buildProxyV2',
    'connectName',
    'formatIp',
    'hostOf',
    'mapIp',
    'parseCidr',
    'parseClientHello',
    'parseHttpHead',
    'parseIp',
    'parseProxyHeader',
    'recognize',
    'tlsAlert',
  ]);
});

test('parsers of the library read all bytes if they are not told a range', () => {
  const hello = inRecords(helloMessage({ extensions: [serverNameExtension('a.test')] }));
  const parsed = library.parseClientHello(hello);
  assert.equal(parsed.kind === 'found' && parsed.value.serverName, 'a.test');
  const header = library.parseProxyHeader(Buffer.from('PROXY UNKNOWN\r\n'));
  assert.equal(header.kind === 'found' && header.value.end, 15);
  const head = library.parseHttpHead(Buffer.from('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n'));
  assert.equal(head.kind === 'found' && library.hostOf(head.value), 'a.test');
  assert.equal(library.recognize(hello), 'tls');
});
