import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isHostname, isWildcard, normalizeHost, wildcardOf } from './hostname.ts';

const label = fc.stringMatching(/^[a-z0-9_]([a-z0-9_-]{0,20}[a-z0-9_])?$/);
const name = fc
  .array(label, { minLength: 1, maxLength: 5 })
  .map(labels => labels.join('.'))
  .filter(text => !/^[\d.]+$/.test(text));

test('normalizeHost() converts to lower case and drops one trailing dot', () => {
  assert.equal(normalizeHost('API.Example.COM.'), 'api.example.com');
  assert.equal(normalizeHost('*.Apps.x'), '*.apps.x');
  assert.equal(normalizeHost('a..'), 'a.');
  assert.equal(normalizeHost(''), '');
});

test('normalizeHost() returns the same text for every spelling of a name', () => {
  fc.assert(
    fc.property(name, fc.boolean(), (host, dot) => {
      assert.equal(normalizeHost(host.toUpperCase() + (dot ? '.' : '')), host);
    }),
  );
});

test('isHostname() accepts names of legal labels', () => {
  const label63 = 'a'.repeat(63);
  const name253 = `${`${label63}.`.repeat(3)}${'b'.repeat(61)}`;
  for (const host of [
    'a',
    'localhost',
    'a-b.c',
    '1.a',
    'a.1',
    '_acme.x',
    'xn--bcher-kva.de',
    '1.2.3',
    label63,
    name253,
  ]) {
    assert.equal(isHostname(host), true, host);
  }
  fc.assert(fc.property(name, host => isHostname(host)));
});

test('isHostname() refuses everything else', () => {
  const tooLong = `${`${'a'.repeat(63)}.`.repeat(3)}${'b'.repeat(62)}`;
  const bad = [
    '',
    '.',
    'a.',
    '.a',
    'a..b',
    '-a',
    'a-',
    'a.-b',
    'a b',
    'a:1',
    'a/b',
    '[::1]',
    '::1',
    'bücher.de',
    'A',
    '*.a',
  ];
  for (const host of [...bad, '1.2.3.4', '999.1.1.1', 'a'.repeat(64), tooLong, 'a\n', 'a\0']) {
    assert.equal(isHostname(host), false, JSON.stringify(host));
  }
});

test('isHostname() never throws and accepts only normalized names', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary-ascii' }),
      text => !isHostname(text) || normalizeHost(text) === text,
    ),
  );
});

test('isWildcard() requires the wildcard as the whole first label, once', () => {
  for (const good of ['*.a', '*.apps.example.com']) assert.equal(isWildcard(good), true, good);
  for (const bad of ['*', '*.', '**.a', '*a.b', 'a.*.b', '*.*.a', '*.1.2.3.4', 'a.b', '']) {
    assert.equal(isWildcard(bad), false, bad);
  }
});

test('wildcardOf() returns the wildcard that matches the name', () => {
  assert.equal(wildcardOf('a.b.c'), '*.b.c');
  assert.equal(wildcardOf('a'), undefined);
  fc.assert(
    fc.property(label, name, (first, rest) => {
      const wildcard = wildcardOf(`${first}.${rest}`);
      assert.equal(wildcard, `*.${rest}`);
    }),
  );
});
