import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NameResolver } from './name-resolver.ts';

/** A resolver whose answers the test provides. */
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

/** Longer than changes wait for their batch. */
const later = () => new Promise(resolve => setTimeout(resolve, 40));

test('NameResolver.watch() knows new names when it returns', async () => {
  const { resolver } = given({ a: ['192.0.2.1', '2001:db8::1'], b: ['192.0.2.2'] });
  await resolver.watch(new Set(['a', 'b']), 1000, () => {});
  assert.deepEqual(resolver.addresses('a'), ['192.0.2.1', '2001:db8::1']);
  assert.deepEqual(resolver.addresses('b'), ['192.0.2.2']);
  resolver.stop();
});

test('NameResolver.watch() waits no longer than `waitMs`', async () => {
  const resolver = new NameResolver(
    () => {},
    () => new Promise(() => {}),
  );
  await resolver.watch(new Set(['slow']), 1, () => {});
  assert.deepEqual(resolver.addresses('slow'), []);
  resolver.stop();
});

test('NameResolver looks names up again and reports changes, but not another order', async t => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { resolver, answers } = given({ a: ['192.0.2.1', '192.0.2.2'] });
  const changes: string[] = [];
  await resolver.watch(new Set(['a']), 1000, names => changes.push(...names));
  await later();
  assert.deepEqual(changes.splice(0), ['a']);
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

test('NameResolver keeps the last addresses of a name that stops resolving, and reports it once', async t => {
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

/** A resolver whose lookups the test completes. */
function givenSlow() {
  const lookups: { name: string; answer(addresses: readonly string[]): void }[] = [];
  const errors: [string, string | undefined][] = [];
  const resolver = new NameResolver(
    (name, error) => errors.push([name, error]),
    name => new Promise(answer => lookups.push({ name, answer })),
  );
  return { resolver, lookups, errors };
}

test('NameResolver looks a new name up before the refresh of all others', async t => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { resolver, lookups } = givenSlow();
  const old = Array.from({ length: 50 }, (_, i) => `old${i}`);
  const known = resolver.watch(new Set(old), 10_000, () => {});
  for (let i = 0; i < 50; i++) {
    lookups[i].answer(['192.0.2.1']);
    await new Promise(setImmediate);
  }
  await known;
  t.mock.timers.tick(10_000);
  assert.equal(lookups.length, 52);
  const both = resolver.watch(new Set([...old, 'new']), 10_000, () => {});
  lookups[50].answer(['192.0.2.1']);
  await new Promise(setImmediate);
  assert.equal(lookups[52].name, 'new');
  lookups[52].answer(['192.0.2.7']);
  // watch() does not wait for the refresh of the others.
  await both;
  assert.deepEqual(resolver.addresses('new'), ['192.0.2.7']);
  resolver.stop();
});

test('NameResolver does not wait for stuck lookups: others get their turn, and a late answer is used', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { resolver, lookups, errors } = givenSlow();
  void resolver.watch(new Set(['stuck1', 'stuck2', 'fine']), 1, () => {});
  assert.deepEqual(
    lookups.map(({ name }) => name),
    ['stuck1', 'stuck2'],
  );
  t.mock.timers.tick(5000);
  assert.equal(lookups[2].name, 'fine');
  assert.deepEqual(errors[0], ['stuck1', 'the resolver has not answered for 5 s']);
  lookups[0].answer(['192.0.2.1']);
  await new Promise(setImmediate);
  assert.deepEqual(resolver.addresses('stuck1'), ['192.0.2.1']);
  assert.deepEqual(errors.at(-1), ['stuck1', undefined]);
  resolver.stop();
});

test('NameResolver reports changes that come close together in one batch', async () => {
  const { resolver } = given(
    Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`n${i}`, ['192.0.2.1']])),
  );
  const reports: (readonly string[])[] = [];
  const names = Array.from({ length: 100 }, (_, i) => `n${i}`);
  await resolver.watch(new Set(names), 1000, changed => reports.push(changed));
  await later();
  assert.ok(reports.length <= 2, `${reports.length} reports`);
  assert.equal(reports.flat().length, 100);
  resolver.stop();
});

test('NameResolver reports the first answer for a name, even an empty one, and isPending() until then', async t => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { resolver, answers } = given({ b: ['192.0.2.2'] });
  const changes: string[] = [];
  const watched = resolver.watch(new Set(['a', 'b']), 1000, names => changes.push(...names));
  assert.deepEqual([resolver.isPending('a'), resolver.isPending('b')], [true, true]);
  await watched;
  assert.deepEqual([resolver.isPending('a'), resolver.isPending('b')], [false, false]);
  await later();
  assert.deepEqual(changes.toSorted(), ['a', 'b']);
  t.mock.timers.tick(10_000);
  await later();
  assert.equal(changes.length, 2);
  answers.a = ['192.0.2.1'];
  t.mock.timers.tick(10_000);
  await later();
  assert.deepEqual(changes.slice(2), ['a']);
  assert.equal(resolver.isPending('nobody'), false);
  resolver.stop();
});
