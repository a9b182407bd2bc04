import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { sortKeys } from './cluster-view.ts';
import { initialState, type PageState, readState, writeState } from './page-state.ts';

test('readState() reads back what writeState() wrote', () => {
  const states = fc.record<PageState>({
    filter: fc.string({ unit: 'grapheme' }),
    problemsOnly: fc.boolean(),
    sort: fc.record({ by: fc.constantFrom(...sortKeys), descending: fc.boolean() }),
    rowsOpen: fc.constantFrom(true, false, undefined),
    rows: fc
      .array(fc.tuple(fc.string(), fc.boolean()))
      .map(rows => new Map(rows.toSorted(([, a], [, b]) => Number(b) - Number(a)))),
    connections: fc.option(fc.string(), { nil: undefined }),
  });
  fc.assert(
    fc.property(states, ({ sort, ...state }) => {
      const written = { ...state, sort: { ...sort } };
      assert.deepEqual(readState(writeState(written)), written);
    }),
  );
});

test('writeState() leaves nothing in the URL that is as at first', () => {
  assert.equal(writeState(initialState), '');
  assert.deepEqual(readState(''), initialState);
});

test('writeState() is readable', () => {
  const state: PageState = {
    ...initialState,
    filter: 'blue api',
    sort: { by: 'refused', descending: false },
    rows: new Map([
      ['blue', true],
      ['red', false],
    ]),
    connections: '',
  };
  assert.equal(
    writeState(state),
    '#filter=blue+api&sort=refused&order=ascending&open=blue&closed=red&connections=',
  );
});

test('readState() ignores what it does not know', () => {
  assert.deepEqual(readState('#sort=constructor&order=up&rows=some&else=1&%zz'), initialState);
});
