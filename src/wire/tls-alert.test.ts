import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tlsAlert } from './tls-alert.ts';

test('tlsAlert() returns the record of each fatal alert, the same array every time', () => {
  const expected = {
    access_denied: '15030100020231',
    decode_error: '15030100020232',
    internal_error: '15030100020250',
    unrecognized_name: '15030100020270',
  } as const;
  for (const alert of Object.keys(expected) as (keyof typeof expected)[]) {
    assert.equal(Buffer.from(tlsAlert(alert)).toString('hex'), expected[alert]);
    assert.equal(tlsAlert(alert), tlsAlert(alert));
  }
});
