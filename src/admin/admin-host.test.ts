import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOwnHost } from './admin-host.ts';

test('isOwnHost() knows addresses, localhost and the names it is given, with any port', () => {
  const own = ['127.0.0.1', '192.0.2.1:80', '[::1]', '[2001:db8::1]:9440', 'localhost', 'LOCALHOST:1'];
  for (const host of [...own, 'gw.test', 'GW.Test:443']) assert.ok(isOwnHost(host, ['Gw.test']), host);
});

test('isOwnHost() knows nothing else', () => {
  const foreign = ['', 'evil.test', 'gw.test.evil.test', 'localhost.', '127.0.0.1.evil.test', '[::1', '::1]'];
  for (const host of [...foreign, '[evil.test]', 'evil.test:127', 'gw.test:x', ':9440'])
    assert.ok(!isOwnHost(host, ['gw.test']), host);
});
