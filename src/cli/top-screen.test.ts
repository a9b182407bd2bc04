import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { textWidth } from './fit-text.ts';
import { sample, sampleCluster, sampleRoute } from './top.samples.ts';
import { topSorts } from './top-figures.ts';
import { type TopState, topScreen } from './top-screen.ts';

const plain = (_: string, text: string) => text;
const state = (more: Partial<TopState> = {}): TopState => ({
  sort: 'open',
  problems: false,
  scroll: 0,
  ...more,
});

const down = { address: '192.0.2.2:6443', up: false, health: 'tls', connections: 0, why: 'refused' } as const;
const busy = sampleCluster('busy', [
  sampleRoute({
    connections: 12,
    recent: {
      opened: 3000,
      bytesIn: 300 * 2048,
      bytesOut: 300 * 2 ** 20,
      reasons: { done: 1, 'not-allowed': 7 },
    },
  }),
  sampleRoute({ kind: 'apps-http', redirect: true, backends: [] }),
]);
const hurt = sampleCluster('hurt', [sampleRoute({ backends: [...sampleRoute().backends, down] })]);

test('topScreen() shows trouble first, then a line for each route', () => {
  const { lines } = topScreen(state({ sample: sample(0, [hurt, busy]) }), undefined, plain);
  assert.deepEqual(lines, [
    'causeway 0.1.0  epoll, 2 workers, up 10 min',
    '12 open, 10 new/s, in 2.0 KiB/s, out 1.0 MiB/s; 2 clusters, 3 routes',
    'refused in 5 min: none',
    '! hurt api: 192.0.2.2:6443 down, refused',
    '',
    'cluster  route       open▾   new/s         in/s        out/s  backends  refused in 5 min',
    'busy     api            12      10    2.0 KiB/s    1.0 MiB/s  1/1       not-allowed 7',
    '         apps-http       0       0        0 B/s        0 B/s  redirect',
    'hurt     api             0       0        0 B/s        0 B/s  1/2',
  ]);
});

test('topScreen() fills the terminal, and the table scrolls', () => {
  const clusters = Array.from({ length: 50 }, (_, i) => sampleCluster(`tenant-${i}`));
  const size = { width: 80, height: 15 };
  const first = topScreen(state({ sample: sample(0, clusters), sort: 'name' }), size, plain);
  assert.equal(first.lines.length, 15);
  assert.equal(first.maxScroll, 50 - 9);
  assert.match(first.lines[5], /^tenant-0 /);
  assert.match(first.lines[14], /^q quit {2}sort \(name\): .*/);
  const wide = { width: 150, height: 15 };
  const last = topScreen(state({ sample: sample(0, clusters), sort: 'name', scroll: 1000 }), wide, plain);
  assert.match(last.lines[13], /^tenant-49 /);
  assert.match(last.lines[14], /42–50 of 50, ↑↓ to scroll/);
});

test('topScreen() says that the gateway is gone, and keeps the last figures', () => {
  const lost = { text: 'Nothing listens on http://127.0.0.1:9440', ms: 6200 };
  const { lines } = topScreen(state({ sample: sample(0, [busy]), lost }), { width: 100, height: 20 }, plain);
  assert.equal(lines[1], '✗ No answer for 6 s, retrying: Nothing listens on http://127.0.0.1:9440');
  assert.match(lines.join('\n'), /^busy {5}api +12/m);
});

test('topScreen() shows only clusters with problems where asked to', () => {
  const shown = (problems: boolean, clusters = [busy, hurt]) =>
    topScreen(state({ sample: sample(0, clusters), problems }), undefined, plain).lines.join('\n');
  assert.doesNotMatch(shown(true), /^busy/m);
  assert.match(shown(true), /^hurt/m);
  assert.match(shown(true, [busy]), /^No cluster has a problem$/m);
  assert.match(shown(false, []), /^No clusters$/m);
});

test('topScreen() has a line for each kind of trouble, errors first, and no more than a third of the screen', () => {
  const config = { ok: false, error: 'a.yaml:1:1: bad\nmore', restartNeeded: ['workers'] };
  const sources = [{ name: 'kamaji', up: false, synced: false, error: '401' }];
  const finding = { severity: 'warning', code: 'HostMissing', text: 'no host', fix: '' } as const;
  const given = {
    ...sample(
      0,
      [{ ...hurt, findings: [finding] }, sampleCluster('dead', [sampleRoute({ backends: [down, down] })])],
      {
        config,
        sources,
        findings: [{ ...finding, source: null, object: 'Service a/b' }],
      },
    ),
    notReady: 'draining',
  };
  const { lines } = topScreen(state({ sample: given }), undefined, plain);
  assert.deepEqual(lines.slice(3, 12), [
    '✗ not ready: draining',
    '✗ the file is refused: a.yaml:1:1: bad\\nmore',
    '✗ source kamaji: 401',
    '✗ dead api: 192.0.2.2:6443 and 1 more down, refused',
    '! restart needed for workers',
    '! Service a/b: no host',
    '! hurt api: 192.0.2.2:6443 down, refused',
    '! hurt: no host',
    '',
  ]);
  const small = topScreen(state({ sample: given }), { width: 80, height: 12 }, plain).lines;
  assert.equal(small[6], 'and 5 more problems: causeway status --problems');
});

test('topScreen() shows no control character of others, and is never wider or higher than the terminal', () => {
  const hostile = fc.string({ unit: 'binary', maxLength: 40 });
  const anySample = fc
    .array(
      fc.record({
        name: hostile,
        kind: hostile,
        why: hostile,
        up: fc.constantFrom(true, false, null),
        count: fc.nat(),
      }),
      { maxLength: 8 },
    )
    .map(all =>
      sample(
        0,
        all.map(({ name, kind, why, up, count }) =>
          sampleCluster(name, [
            sampleRoute({
              kind,
              connections: count,
              backends: [{ address: why, up, why, health: 'tls', connections: 0 }],
            }),
          ]),
        ),
      ),
    );
  const size = fc.record({
    width: fc.integer({ min: 1, max: 200 }),
    height: fc.integer({ min: 1, max: 40 }),
  });
  fc.assert(
    fc.property(
      anySample,
      size,
      fc.constantFrom(...topSorts),
      fc.nat({ max: 50 }),
      (given, at, sort, scroll) => {
        const { lines } = topScreen(state({ sample: given, sort, scroll }), at, plain);
        assert.ok(lines.length <= at.height, `${lines.length} lines`);
        for (const line of lines) {
          assert.ok(textWidth(line) <= at.width, line);
          assert.doesNotMatch(line, /\p{Cc}/u);
        }
      },
    ),
  );
});
