import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as check, property, string } from 'fast-check';
import { printable } from '../text/printable.ts';
import { parseHaproxyVersion, readHaproxyVersion, readsAnyTlv, whyUnsupported } from './haproxy-version.ts';

const DEBIAN_12 = `HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/
Status: long-term supported branch - will stop receiving fixes around Q2 2027.`;

test('parseHaproxyVersion() reads what haproxy -v prints', () => {
  assert.deepEqual(parseHaproxyVersion(DEBIAN_12), { major: 2, minor: 6, text: '2.6.12-1+deb12u4' });
  const texts = [
    ['HAProxy version 3.0.11-1+deb13u1 2025/10/01 - https://haproxy.org/', '3.0.11-1+deb13u1'],
    ['HA-Proxy version 1.8.19 2019/02/11', '1.8.19'],
    ['[WARNING] (1) : a line before\nHAProxy version 3.3-dev4-1a2b3c 2025/07/01', '3.3-dev4-1a2b3c'],
  ];
  for (const [output, text] of texts) assert.equal(parseHaproxyVersion(output)?.text, text);
  for (const other of ['', 'nginx version: nginx/1.22.1', 'HAProxy version x'])
    assert.equal(parseHaproxyVersion(other), undefined);
});

test('parseHaproxyVersion() never throws, and its text is printable', () => {
  check(
    property(string(), rest => {
      const version = parseHaproxyVersion(`HAProxy version 2.8${rest}`);
      assert.equal(printable(version?.text ?? ''), version?.text ?? '');
    }),
  );
});

test('whyUnsupported() names a version that is too old or too new', () => {
  const why = (given: string) => whyUnsupported(readHaproxyVersion(given) ?? assert.fail(given));
  assert.equal(why('2.5'), 'HAProxy 2.5 is too old: 2.6 or newer is needed');
  assert.equal(why('1.8.19'), 'HAProxy 1.8.19 is too old: 2.6 or newer is needed');
  assert.equal(why('4.0'), 'HAProxy 4.0 is not known to this version: 2.6 to 3.x are');
  for (const good of ['2.6', '2.6.12', '2.9', '3.0.11', '3.4']) assert.equal(why(good), undefined);
});

test('readsAnyTlv() is true from 2.9 on', () => {
  const reads = (given: string) => readsAnyTlv(readHaproxyVersion(given) ?? assert.fail(given));
  assert.deepEqual(['2.6', '2.8', '2.9', '3.0'].map(reads), [false, false, true, true]);
});

test('readHaproxyVersion() takes only numbers', () => {
  for (const given of ['', '3', 'latest', '3.0-dev', 'v3.0', '3.0.1.2'])
    assert.equal(readHaproxyVersion(given), undefined, given);
});
