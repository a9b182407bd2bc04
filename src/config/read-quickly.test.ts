// readQuickly() gives what reading with positions gives, or declines: for files as people write them, and for the same
// with a few characters changed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { KnownClusters } from './known-clusters.ts';
import { readWithPositions } from './read-config.ts';
import { readPlainBlock } from './read-plain-block.ts';
import { readQuickly } from './read-quickly.ts';
import { blockOf, type SplitClusters, splitClusters } from './split-clusters.ts';
import { readYaml } from './yaml-text.ts';

const RUNS = 2000;

/** Whether it was read. */
function agrees(text: string): boolean {
  const quick = readQuickly(Buffer.from(text));
  if (quick !== undefined) assert.deepEqual(quick, readWithPositions(text, 'causeway.yaml'), text);
  return quick !== undefined;
}

const style = fc.record({
  before: fc.constantFrom('', '\ufeff', '# comment\n', '---\n'),
  key: fc.constantFrom(
    'clusters:',
    'clusters:   ',
    'clusters: # all of them',
    'clusters:\n\n  # all of them',
  ),
  indent: fc.constantFrom(0, 1, 2, 4),
  after: fc.constantFrom(
    '',
    '# end',
    'retries: 1\n',
    '\n\nlimits: { pending: 5 }\nidentity: { secretFile: ./s }\n',
  ),
  newline: fc.boolean(),
});

/** The lines of a cluster, below its name: one choice of each line here, or none. `#` stands for its number. */
const choices = [
  [['id: id-#'], ['id: "id-#"   # quoted'], ["id: 'id-#'"], ['id: 0b9c-#']],
  [['allow: [10.0.0.1/8, "::/0", 192.0.2.1] # masked'], ['allow: []', ''], ['allow:', '- 192.0.2.0/24']],
  [['limits: { connections: 10, perSource: off }'], ['limits:', ' perSource: 7', ' newPerSecond: off']],
  [
    ['api:', '  hosts: [api-#.test]', '  backends: ["192.0.2.1:6443", cp-#.test:6443]'],
    ['api:', '  backends: []', '  connect: [inner-#.test]'],
    [
      'api: {hosts: [API-#.test.,b-#.test], backends: [192.0.2.3:443], health: {rise: 3, path: /x, check: http}}',
    ],
  ],
  [
    [
      'konnectivity:',
      '    hosts:',
      '    - k-#.test',
      "    - '*.k-#.test'",
      '    backends:',
      '      - 192.0.2.1:8132',
    ],
  ],
  [
    ['apps:', '  hosts: ["*.apps-#.test"]', '  https: ["[2001:db8::1]:443"]', '  http: redirect'],
    ['apps:', '  http: { backends: [192.0.2.1:80],', '    health: { every: 1m } }'],
  ],
  [
    [
      'routes:',
      '  # own',
      '  oauth: { hosts: [o-#.test],',
      '     backends: [ 192.0.2.4:443,',
      '       192.0.2.5:443 ] }',
    ],
    ['routes:', '', '  1e3: { hosts: [e-#.test], backends: [], alpn: [ h2 ] }', '  true: { backends: [] }'],
  ],
];
const wrong = [
  'api: { backends: [*anchor] }',
  'id: 0x20',
  'id: 1e3',
  'id: 007',
  'name: again',
  'identity: required',
  'id:',
];

const keys = fc
  .tuple(
    ...choices.map(some => fc.option(fc.constantFrom(...some), { nil: [] })),
    fc.oneof(
      { weight: 20, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.constantFrom(...wrong.map(line => [line])) },
    ),
  )
  .map(lines => lines.flat());

const file = fc.tuple(style, fc.array(keys, { minLength: 1, maxLength: 4 })).map(([given, clusters]) => {
  const margin = ' '.repeat(given.indent);
  const blocks = clusters.map((lines, number) => {
    const below = lines.map(line => `${line === '' ? '' : `${margin}  ${line}`}`);
    return [`${margin}- name: c${number}`, ...below].join('\n').replaceAll('-#', `-${number}`);
  });
  const text = `${given.before}listen: [":6443"]\n${given.key}\n${blocks.join('\n')}\n${given.after}`;
  return given.newline ? text : text.trimEnd();
});

const change = fc.record({
  at: fc.nat(),
  cut: fc.constantFrom(0, 0, 1, 1, 2, 5),
  put: fc.oneof(
    fc.constantFrom('', ...' :-#,"\'\\[]{}|>!?%@~&*\t\r\n0.e/_é\u2028'),
    fc.constantFrom(
      '  ',
      '\n  ',
      '\n- ',
      '\n---\n',
      ': ',
      ' #',
      '&a ',
      '*a',
      '!!str ',
      '<<: ',
      '__proto__: ',
    ),
    fc.constantFrom('null', 'true', '0x1', '1.5', '.inf', '"a"', '[]', '{}', '- ', '? '),
  ),
});

/** The file with some of its characters changed. */
const changedFile = fc.tuple(file, fc.array(change, { minLength: 1, maxLength: 2 })).map(([text, changes]) =>
  changes.reduce((changed, { at, cut, put }) => {
    const from = at % (changed.length + 1);
    return changed.slice(0, from) + put + changed.slice(from + cut);
  }, text),
);

test('readQuickly() agrees with reading with positions, or declines', () => {
  let read = 0;
  fc.assert(
    fc.property(file, text => {
      if (agrees(text)) read++;
    }),
    { numRuns: 300 },
  );
  assert.ok(read > 100, `${read} files were read`);
});

test('readQuickly() agrees or declines however the file is changed', () => {
  let read = 0;
  fc.assert(
    fc.property(changedFile, text => {
      if (agrees(text)) read++;
    }),
    { numRuns: RUNS },
  );
  assert.ok(read > RUNS / 100, `${read} files were read`);
});

test('readQuickly() gives the same with clusters that it knows from other files', () => {
  fc.assert(
    fc.property(fc.array(file, { minLength: 2, maxLength: 4 }), texts => {
      const known = new KnownClusters();
      for (const text of [...texts, texts[0]]) {
        const bytes = Buffer.from(text);
        assert.deepEqual(readQuickly(bytes, known), readQuickly(bytes));
      }
    }),
    { numRuns: 200 },
  );
});

test('splitClusters() gives the same, however much is known from the file before', () => {
  const block = fc.constantFrom('- a\n', '- a\n  b: c\n', '- d\n\n', '- é\n  # e\n', '- a\n\n- d\n');
  const blocks = fc.array(block, { minLength: 1, maxLength: 8 });
  const end = fc.constantFrom('', 'x: y\n', '  z\n', '- a');
  const one = fc.tuple(fc.constantFrom('', 'a: b\n'), blocks, end);
  const texts = fc.array(
    one.map(([top, all, last]) => `${top}clusters:\n${all.join('')}${last}`),
    {
      minLength: 2,
      maxLength: 6,
    },
  );
  let same = 0;
  fc.assert(
    fc.property(fc.oneof(texts, fc.array(changedFile, { minLength: 2, maxLength: 3 })), versions => {
      let before: SplitClusters | undefined;
      for (const text of [...versions, versions[0]]) {
        const bytes = Buffer.from(text);
        const alone = splitClusters(bytes);
        const split = splitClusters(bytes, before);
        const { sameFirst = 0, sameLast = 0, ...rest } = split ?? {};
        const { sameFirst: none = 0, sameLast: neither = 0, ...whole } = alone ?? {};
        assert.deepEqual([none, neither, rest], [0, 0, whole]);
        if (split === undefined) continue;
        const now = blocksOf(split);
        const then = before === undefined ? [] : blocksOf(before);
        assert.deepEqual(now.slice(0, sameFirst), then.slice(0, sameFirst));
        assert.deepEqual(now.slice(now.length - sameLast), then.slice(then.length - sameLast));
        assert.ok(sameFirst + sameLast <= Math.min(now.length, then.length));
        same += sameFirst + sameLast;
        before = split;
      }
    }),
    { numRuns: RUNS },
  );
  assert.ok(same > RUNS / 5, `${same} clusters were known`);
});

function blocksOf(split: SplitClusters): string[] {
  return Array.from({ length: split.starts.length - 1 }, (_, index) => blockOf(split, index));
}

test('readPlainBlock() gives what the YAML library gives, or declines', () => {
  let read = 0;
  fc.assert(
    fc.property(changedFile, text => {
      const split = splitClusters(Buffer.from(text));
      if (split === undefined) return;
      for (const block of blocksOf(split)) {
        const data = readPlainBlock(block, split.indent);
        if (data === undefined) continue;
        const yaml = readYaml(block, 'causeway.yaml');
        assert.deepEqual([[data], []], [yaml.data, yaml.mistakes], block);
        read++;
      }
    }),
    { numRuns: RUNS },
  );
  assert.ok(read > RUNS / 20, `${read} blocks were read`);
});
