import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestText } from './ask-backend.ts';

test('requestText() is the whole request, header by header as given', () => {
  assert.equal(
    requestText('GET', '/a?b=\xe9', ['Host', 'a.example', 'x-Tab', 'a\tb\xff']),
    'GET /a?b=\xe9 HTTP/1.1\r\nHost: a.example\r\nx-Tab: a\tb\xff\r\n\r\n',
  );
});

for (const bad of ['\r', '\n', '\0', '\x7f', '\u0100']) {
  test(`requestText() passes ${JSON.stringify(bad)} on nowhere`, () => {
    assert.equal(requestText('GET', `/${bad}`, []), undefined);
    assert.equal(requestText('GET', '/', ['A', 'b', 'C', `d${bad}e`]), undefined);
  });
}
