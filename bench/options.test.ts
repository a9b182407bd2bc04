import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OptionError, readOptions, repeatCommand } from './options.ts';

const known = { scenarios: ['a', 'b', 'c'], peers: ['causeway', 'haproxy'] };

test('readOptions() defaults to everything, five times', () => {
  const { scenarios, peers, rounds, engine, docs } = readOptions([], known);
  assert.deepEqual(
    [scenarios, peers, rounds, engine, docs],
    [known.scenarios, known.peers, 5, 'auto', false],
  );
});

test('readOptions() selects, in the order of the benchmark', () => {
  const args = ['--scenario', 'c,a', '--rounds', '3', '--engine', 'net', '--duration', '2s'];
  const { scenarios, rounds, engine, seconds } = readOptions(args, known);
  assert.deepEqual([scenarios, rounds, engine, seconds], [['a', 'c'], 3, 'net', 2]);
});

test('readOptions() accepts milliseconds', () => {
  assert.equal(readOptions(['--duration', '700ms'], known).seconds, 0.7);
});

for (const [args, message] of [
  [['--scenario', 'a,z'], /--scenario must be of a, b, c: current value is 'z'/],
  [['--peer', 'envoy'], /--peer must be of causeway, haproxy: current value is 'envoy'/],
  [['--rounds', '0'], /--rounds must be a number from 1 on: current value is '0'/],
  [['--duration', '2'], /--duration must be a time such as 2s or 500ms: current value is '2'/],
  [['--duration', '0s'], /--duration must be/],
  [['--what'], /Unknown option '--what'/],
] as const) {
  test(`readOptions() refuses ${args.join(' ')}`, () => {
    assert.throws(
      () => readOptions(args, known),
      error => error instanceof OptionError && message.test(error.message),
    );
  });
}

test('repeatCommand() omits the output flags', () => {
  assert.equal(repeatCommand([]), 'npm run bench');
  assert.equal(repeatCommand(['--docs', '--out', '/somewhere']), 'npm run bench');
  assert.equal(repeatCommand(['--out=x', '--rounds', '7', '--docs']), 'npm run bench -- --rounds 7');
});
