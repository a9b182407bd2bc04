import assert from 'node:assert/strict';
import { test } from 'node:test';
import { flagValue } from './flag-value.ts';

const cases: readonly (readonly [string[], string | undefined])[] = [
  [[], undefined],
  [['--other=x', '--flags=x', '-flag=x'], undefined],
  [['--flag=x'], 'x'],
  [['--flag=a=b'], 'a=b'],
  [['--flag='], ''],
  [['--v=1', '--flag', 'x'], 'x'],
  [['--flag'], ''],
  [['--flag=x', '--flag', 'y'], 'y'],
];

for (const [args, value] of cases) {
  test(`flagValue() of [${args.join(', ')}] is ${value}`, () => {
    assert.equal(flagValue(args, '--flag'), value);
  });
}
