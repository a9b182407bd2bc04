import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QuestionError } from './explain.ts';
import { questionTarget } from './question-target.ts';

test('questionTarget() accepts a name, a name with a port, and a URL', () => {
  for (const [text, expected] of [
    ['api.lab.test', { host: 'api.lab.test', protocol: 'tls' }],
    ['API.lab.test.', { host: 'API.lab.test.', protocol: 'tls' }],
    ['api.lab.test:6443', { host: 'api.lab.test', protocol: 'tls', port: 6443 }],
    ['https://api.lab.test', { host: 'api.lab.test', protocol: 'tls', port: 443 }],
    ['https://api.lab.test:6443/version?x=1', { host: 'api.lab.test', protocol: 'tls', port: 6443 }],
    ['HTTP://user@Web.lab.test:8080/', { host: 'web.lab.test', protocol: 'http', port: 8080 }],
    ['ws://web.lab.test/chat', { host: 'web.lab.test', protocol: 'http', port: 80 }],
    ['https://[2001:db8::1]:6443/', { host: '2001:db8::1', protocol: 'tls', port: 6443 }],
    ['[2001:db8::1]:6443', { host: '2001:db8::1', protocol: 'tls', port: 6443 }],
    ['2001:db8::1', { host: '2001:db8::1', protocol: 'tls' }],
    ['', { host: '', protocol: 'tls' }],
  ] as const) {
    assert.deepEqual(questionTarget(text, undefined), expected, text);
  }
  assert.deepEqual(questionTarget('lab', 'connect'), { host: 'lab', protocol: 'connect' });
  assert.deepEqual(questionTarget('web.test:80', 'http'), { host: 'web.test', protocol: 'http', port: 80 });
});

test('questionTarget() refuses other URLs, and one that contradicts the requested protocol', () => {
  for (const [text, protocol] of [
    ['ftp://lab.test', undefined],
    ['https://', undefined],
    ['https://a b', undefined],
    ['http://lab.test', 'tls'],
    ['https://lab.test', 'connect'],
  ] as const) {
    assert.throws(() => questionTarget(text, protocol), QuestionError, text);
  }
});
