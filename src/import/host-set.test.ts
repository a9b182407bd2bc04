import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseHostRegex, sequenceHas } from './host-regex.ts';
import { hostSet, isAmong } from './host-set.ts';

function hostsOf(regex: string): readonly string[] {
  return hostSet('reg', regex, true).hosts;
}

test('hostSet() reads the regular expressions that people write for hosts', () => {
  const cases: [string, string[]][] = [
    ['^api\\.a\\.lab$', ['api.a.lab']],
    ['^[^\\.]+\\.apps\\.a\\.lab$', ['*.apps.a.lab']],
    ['^[^.]+[.]apps[.]a[.]lab$', ['*.apps.a.lab']],
    ['^[a-z0-9-]+\\.apps\\.a\\.lab', ['*.apps.a.lab']],
    ['^(api|oauth)\\.a\\.lab$', ['api.a.lab', 'oauth.a.lab']],
    ['\\.a\\.lab$', ['*.a.lab']],
    ['^.*\\.a\\.lab$', ['*.a.lab']],
    ['^(?:[^.]+\\.)?a\\.lab$', ['a.lab', '*.a.lab']],
    ['^x\\.a\\.lab(:[0-9]+)?$', ['x.a.lab']],
    ['^API\\.A\\.lab$', ['api.a.lab']],
    ['^api-[0-9]+\\.a\\.lab$', []],
    ['^(a+)+$', []],
    ['(?!x)a\\.lab', []],
    ['^a{2}\\.lab$', []],
    ['[', []],
  ];
  for (const [regex, hosts] of cases) assert.deepEqual(hostsOf(regex).toSorted(), hosts.toSorted(), regex);
});

test('hostSet() says how the original differs', () => {
  const odd = (...args: Parameters<typeof hostSet>) => hostSet(...args).oddities.join('; ');
  assert.equal(odd('reg', '^x\\.a\\.lab$', true), '');
  assert.equal(odd('str', 'x.a.lab', true), '');
  assert.match(odd('reg', '^[^.]+\\.a\\.lab', true), /unanchored.*x\.a\.lab\.evil\.example/);
  assert.match(odd('reg', 'x\\.a\\.lab$', true), /unanchored: without \^/);
  assert.match(odd('reg', '^x.a\\.lab$', true), /unescaped dot/);
  assert.match(odd('end', '.a.lab', true), /any number of labels/);
  assert.match(odd('end', 'a.lab', true), /also matches nota\.lab/);
  assert.match(odd('str', 'API.a.lab', false), /capitals/);
});

test('hostSet() without oddities has exactly its hosts', () => {
  const label = fc.constantFrom('a', 'b', 'api', 'x-1');
  const host = fc.array(label, { minLength: 1, maxLength: 4 }).map(labels => labels.join('.'));
  const escaped = (text: string) => text.replaceAll('.', '\\.');
  const regex = fc.oneof(
    host.map(one => `^${escaped(one)}$`),
    host.map(one => `^[^.]+\\.${escaped(one)}$`),
    fc.tuple(host, host).map(([one, other]) => `^(${escaped(one)}|${escaped(other)})$`),
  );
  fc.assert(
    fc.property(regex, host, (text, one) => {
      const set = hostSet('reg', text, true);
      assert.deepEqual(set.oddities, []);
      assert.equal(set.has(one), isAmong(set.hosts, one));
      assert.equal(set.has(one), new RegExp(text, 'i').test(one));
    }),
  );
});

test('sequenceHas() agrees with a regular expression engine', () => {
  const piece = fc.constantFrom(
    'a',
    'b',
    '\\.',
    '.',
    '[^.]+',
    '[ab]',
    '.*',
    'a?',
    '(a|b\\.)',
    '(?:ab)?',
    '\\d+',
  );
  const regex = fc
    .tuple(fc.boolean(), fc.array(piece, { maxLength: 6 }), fc.boolean())
    .map(([start, pieces, end]) => `${start ? '^' : ''}${pieces.join('')}${end ? '$' : ''}`);
  fc.assert(
    fc.property(regex, fc.stringMatching(/^[ab.1]{0,8}$/), (text, host) => {
      const sequences = parseHostRegex(text, false);
      assert.ok(sequences !== undefined, text);
      assert.equal(
        sequences.some(sequence => sequenceHas(sequence, host)),
        new RegExp(text).test(host),
      );
    }),
    { numRuns: 1000 },
  );
});

test('hostSet() never throws, whatever the text', () => {
  const piece = fc.constantFrom(...'()[]{}?*+|^$\\.-aZ0:!');
  fc.assert(
    fc.property(
      fc.string({ unit: piece, maxLength: 40 }),
      fc.constantFrom('reg', 'end', 'dom', 'str'),
      (text, method) => {
        hostSet(method as 'reg', text, false).has('api.example.com');
      },
    ),
    { numRuns: 2000 },
  );
});
