import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { tokenize } from './tokenize.ts';

function words(text: string, env: Record<string, string> = {}): string[] {
  return tokenize({ name: 'a.cfg', text }, env).lines.flatMap(line => line.words.map(word => word.text));
}

test('tokenize() reads quotes, escapes and comments as HAProxy does', () => {
  const cases: [string, string[]][] = [
    ['acl a hdr(host) -m reg ^[^\\.]+\\.apps$', ['acl', 'a', 'hdr(host)', '-m', 'reg', '^[^\\.]+\\.apps$']],
    ['a \'b c\' "d e"f', ['a', 'b c', 'd ef']],
    ['a\\ b \\# c # d', ['a b', '#', 'c']],
    ["'$HOME \\n' x#y", ['$HOME \\n', 'x']],
    ['"\\"quoted\\"" \'\'', ['"quoted"', '']],
    ['\\x41\\t', ['A\t']],
    ['# all', []],
    ['a\r', ['a']],
  ];
  for (const [text, expected] of cases) assert.deepEqual(words(text), expected, text);
});

test('tokenize() expands variables in double quotes only', () => {
  const env = { PORT: '6443', HOST: 'api' };
  assert.deepEqual(words('"$HOST:${PORT}" ${PORT} "${NONE-x y}" "\\$HOST"', env), [
    'api:6443',
    '${PORT}',
    'x y',
    '$HOST',
  ]);
  const { unset } = tokenize({ name: 'a.cfg', text: 'x\n  bind "${NONE}:1"' }, env);
  assert.deepEqual(unset, [{ name: 'NONE', place: { file: 'a.cfg', line: 2, column: 9 } }]);
});

test('tokenize() has positions, and a fault for a quote that stays open', () => {
  const { lines, faults } = tokenize({ name: 'a.cfg', text: 'global\n\n  log "x' }, {});
  assert.deepEqual(lines[1].words[1].place, { file: 'a.cfg', line: 3, column: 7 });
  assert.deepEqual(faults[0].place, { file: 'a.cfg', line: 3, column: 7 });
  assert.match(faults[0].text, /double quote is not closed/);
});

test('tokenize() never throws, and invents no characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), text => {
      const { lines } = tokenize({ name: 'a.cfg', text }, {});
      const length = lines.reduce(
        (sum, line) => sum + line.words.reduce((all, word) => all + word.text.length, 0),
        0,
      );
      assert.ok(length <= text.length);
    }),
  );
});
