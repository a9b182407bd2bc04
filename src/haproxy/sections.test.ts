import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, constantFrom, nat, property, tuple, uniqueArray } from 'fast-check';
import { assignSections, fits, parseShape, shapeText, withSpare } from './sections.ts';

const PLAIN = 'tcp_source_none_open_4';
const OTHER = 'http_host_none_guarded_8';

test('parseShape() reads what shapeText() writes', () => {
  for (const text of [PLAIN, OTHER, 'tcp_least-connections_v2_open_16'])
    assert.equal(shapeText(parseShape(text)), text);
});

test('assignSections() keeps the section of a route whose shape stays, and gives others a free one', () => {
  const first = assignSections(
    new Map(),
    new Map([
      [3, PLAIN],
      [4, PLAIN],
      [5, OTHER],
    ]),
  );
  assert.deepEqual([...first.assignment.values()], [`${PLAIN}_0`, `${PLAIN}_1`, `${OTHER}_0`]);
  const second = assignSections(
    first.assignment,
    new Map([
      [4, PLAIN],
      [5, PLAIN],
      [6, PLAIN],
    ]),
  );
  assert.deepEqual(Object.fromEntries(second.assignment), {
    4: `${PLAIN}_1`,
    5: `${PLAIN}_2`,
    6: `${PLAIN}_3`,
  });
  assert.deepEqual(Object.fromEntries(second.needed), { [PLAIN]: 4 });
});

test('withSpare() leaves room, so that a few more routes need no new process', () => {
  const there = withSpare(new Map([[PLAIN, 3]]));
  assert.ok(fits(new Map([[PLAIN, 7]]), there));
  assert.ok(!fits(new Map([[PLAIN, 8]]), there));
  assert.ok(!fits(new Map([['tcp_random_v1_open_4', 1]]), there));
});

test('no two routes ever share a section', () => {
  const routes = uniqueArray(tuple(nat(30), constantFrom(PLAIN, OTHER)), { selector: ([slot]) => slot });
  check(
    property(array(routes, { maxLength: 6 }), edits => {
      let assignment: ReadonlyMap<number, string> = new Map();
      for (const edit of edits) {
        ({ assignment } = assignSections(assignment, new Map(edit)));
        assert.equal(new Set(assignment.values()).size, edit.length);
      }
    }),
  );
});

test('a section is not given to another route in the change that frees it, nor while it rests', () => {
  const first = assignSections(new Map(), new Map([[4, PLAIN]]));
  const second = assignSections(first.assignment, new Map([[5, PLAIN]]));
  assert.deepEqual([...second.assignment], [[5, `${PLAIN}_1`]]);
  const third = assignSections(second.assignment, new Map([[6, PLAIN]]), new Set([`${PLAIN}_0`]));
  assert.deepEqual([...third.assignment], [[6, `${PLAIN}_2`]]);
  const fourth = assignSections(third.assignment, new Map([[7, PLAIN]]));
  assert.deepEqual([...fourth.assignment], [[7, `${PLAIN}_0`]]);
});
