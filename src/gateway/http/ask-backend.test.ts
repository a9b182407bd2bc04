import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestText } from './ask-backend.ts';

test('requestText() writes the whole request, with the headers as given', () => {
  assert.equal(
    requestText('GET', '/a?b=\xe9', ['Host', 'a.example', 'x-Tab', 'a\tb\xff']),
    'GET /a?b=\xe9 HTTP/1.1\r\nHost: a.example\r\nx-Tab: a\tb\xff\r\n\r\n',
  );
});

for (const bad of ['\r', '\n', '\0', '\x7f', '\u0100']) {
  test(`requestText() rejects ${JSON.stringify(bad)} in the target and in values`, () => {
    assert.equal(requestText('GET', `/${bad}`, []), undefined);
    assert.equal(requestText('GET', '/', ['A', 'b', 'C', `d${bad}e`]), undefined);
  });
}
