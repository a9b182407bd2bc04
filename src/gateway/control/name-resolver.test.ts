import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NameResolver } from './name-resolver.ts';

/** A resolver whose answers the test decides. */
function given(answers: Record<string, readonly string[] | Error>) {
  const asked: string[] = [];
  const errors: [string, string | undefined][] = [];
  const resolver = new NameResolver(
    (name, error) => errors.push([name, error]),
    async name => {
      asked.push(name);
      const answer = answers[name] ?? new Error('ENOTFOUND');
      if (answer instanceof Error) throw answer;
      return answer;
    },
  );
  return { resolver, asked, errors, answers };
}

const later = () => new Promise(resolve => setImmediate(resolve));

test('NameResolver.watch() knows new names when it returns', async () => {
  const { resolver } = given({ a: ['192.0.2.1', '2001:db8::1'], b: ['192.0.2.2'] });
  await resolver.watch(new Set(['a', 'b']), 1000, () => {});
  assert.deepEqual(resolver.addresses('a'), ['192.0.2.1', '2001:db8::1']);
  assert.deepEqual(resolver.addresses('b'), ['192.0.2.2']);
  resolver.stop();
});

test('NameResolver.watch() does not wait longer than it is asked to', async () => {
  const resolver = new NameResolver(
    () => {},
    () => new Promise(() => {}),
  );
  await resolver.watch(new Set(['slow']), 1, () => {});
  assert.deepEqual(resolver.addresses('slow'), []);
  resolver.stop();
});

test('NameResolver looks names up again and tells changes, but not another order', async t => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { resolver, answers } = given({ a: ['192.0.2.1', '192.0.2.2'] });
  const changes: string[] = [];
  await resolver.watch(new Set(['a']), 1000, names => changes.push(...names));
  changes.length = 0;
  answers.a = ['192.0.2.2', '192.0.2.1'];
  t.mock.timers.tick(10_000);
  await later();
  assert.deepEqual(changes, []);
  answers.a = ['192.0.2.9'];
  t.mock.timers.tick(10_000);
  await later();
  assert.deepEqual(changes, ['a']);
  assert.deepEqual(resolver.addresses('a'), ['192.0.2.9']);
  resolver.stop();
});

test('NameResolver keeps the last addresses of a name that stops resolving, and says so once', async t => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { resolver, answers, errors } = given({ a: ['192.0.2.1'] });
  await resolver.watch(new Set(['a']), 1000, () => {});
  answers.a = new Error('SERVFAIL');
  for (let i = 0; i < 3; i++) {
    t.mock.timers.tick(10_000);
    await later();
  }
  assert.deepEqual(resolver.addresses('a'), ['192.0.2.1']);
  answers.a = ['192.0.2.1'];
  t.mock.timers.tick(10_000);
  await later();
  assert.deepEqual(errors, [
    ['a', 'SERVFAIL'],
    ['a', undefined],
  ]);
  resolver.stop();
});

test('NameResolver forgets names that are no longer watched', async () => {
  const { resolver, asked } = given({ a: ['192.0.2.1'], b: ['192.0.2.2'] });
  await resolver.watch(new Set(['a']), 1000, () => {});
  await resolver.watch(new Set(['b']), 1000, () => {});
  assert.deepEqual(resolver.addresses('a'), []);
  assert.deepEqual(asked, ['a', 'b']);
  resolver.stop();
});
