import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { tempDir } from '../../testbed/temp-dir.ts';
import { basicCredentials, lockedOut, refusedChange, roleOf } from './auth.ts';

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;

test('roleOf() answers the role of the user whose password it is', async () => {
  await using dir = await tempDir();
  await writeFile(dir.file('a'), 'open sesame\n');
  await writeFile(dir.file('v'), 'pä:ss');
  const users = [
    { username: 'ann', passwordFile: dir.file('a'), role: 'admin' },
    { username: 'vic', passwordFile: dir.file('v'), role: 'viewer' },
  ] as const;
  const role = (username: string, password: string) => roleOf(users, { username, password });
  assert.equal(await role('ann', 'open sesame'), 'admin');
  assert.equal(await role('vic', 'pä:ss'), 'viewer');
  for (const [username, password] of [
    ['ann', 'open sesame\n'],
    ['ann', 'pä:ss'],
    ['ann', ''],
    ['', 'open sesame'],
    ['nobody', 'open sesame'],
    ['Ann', 'open sesame'],
  ])
    assert.equal(await role(username, password), undefined, `${username}:${password}`);
});

test('roleOf() does the same work for users that there are and others', async () => {
  const users = ['ann', 'bob', 'vic'].map(username => ({
    username,
    passwordFile: username,
    role: 'admin' as const,
  }));
  for (const username of ['ann', 'vic', 'nobody', '']) {
    const files: string[] = [];
    await roleOf(users, { username, password: 'wrong' }, async file => {
      files.push(file);
      return file === 'bob' ? { error: 'it is empty' } : { text: 'right' };
    });
    assert.deepEqual(files, ['ann', 'bob', 'vic'], username);
  }
});

test('roleOf() admits no user whose file is missing, empty, too long or endless', async () => {
  await using dir = await tempDir();
  await writeFile(dir.file('empty'), '\n');
  await writeFile(dir.file('long'), 'x'.repeat(5000));
  for (const passwordFile of [dir.file('none'), dir.file('empty'), dir.file('long'), dir.path, '/dev/zero']) {
    const users = [{ username: 'ann', passwordFile, role: 'admin' }] as const;
    for (const password of ['', 'x'.repeat(4097), 'x'.repeat(5000), '\0'.repeat(4097)])
      assert.equal(await roleOf(users, { username: 'ann', password }), undefined, passwordFile);
  }
});

test('basicCredentials() reads what RFC 7617 says, and nothing else', () => {
  assert.deepEqual(basicCredentials(basic('ann:pä:ss')), { username: 'ann', password: 'pä:ss' });
  assert.deepEqual(basicCredentials(basic(':')), { username: '', password: '' });
  for (const header of [
    '',
    'Basic',
    'Basic !',
    basic('ann'),
    `Bearer ${Buffer.from('a:b').toString('base64')}`,
  ])
    assert.equal(basicCredentials(header), undefined, header);
});

test('lockedOut() names users who cannot log in because of their file, and why', async () => {
  await using dir = await tempDir();
  await writeFile(dir.file('good'), 'open sesame\n');
  await writeFile(dir.file('empty'), '\n');
  const files = { ann: dir.file('good'), bob: dir.file('none'), cyd: dir.file('empty'), dan: '/dev/zero' };
  const users = Object.entries(files).map(([username, passwordFile]) => ({
    username,
    passwordFile,
    role: 'admin' as const,
  }));
  assert.deepEqual(await lockedOut(users), [
    { username: 'bob', file: files.bob, error: 'there is no such file' },
    { username: 'cyd', file: files.cyd, error: 'it is empty' },
    { username: 'dan', file: files.dan, error: 'it has more than 4096 bytes' },
  ]);
});

const json = { contentType: 'application/json', origin: undefined, host: 'gw.test:9440' };

test('refusedChange() lets an admin change, with JSON and from the same origin or none', () => {
  for (const more of [
    {},
    { contentType: 'Application/JSON; charset=utf-8' },
    { origin: 'http://gw.test:9440' },
    { origin: 'https://GW.test', host: 'gw.test:443' },
    { origin: 'https://gw.test', host: 'gw.test' },
    { origin: 'http://[::1]:9440', host: '[::1]:9440' },
  ])
    assert.equal(refusedChange('admin', { ...json, ...more }), undefined, JSON.stringify(more));
});

test('refusedChange() refuses a viewer, a form and a foreign page', () => {
  const cases = [
    ['viewer', {}, 403],
    ['admin', { contentType: undefined }, 415],
    ['admin', { contentType: 'text/plain' }, 415],
    ['admin', { contentType: 'application/x-www-form-urlencoded' }, 415],
    ['admin', { contentType: 'text/plain; application/json' }, 415],
    ['admin', { origin: 'http://evil.test' }, 403],
    ['admin', { origin: 'http://gw.test' }, 403],
    ['admin', { origin: 'http://gw.test:9440.evil.test' }, 403],
    ['admin', { origin: 'null' }, 403],
    ['admin', { origin: '' }, 403],
    ['admin', { origin: 'http://gw.test:9440', host: undefined }, 403],
    ['admin', { origin: 'gw.test:9440' }, 403],
  ] as const;
  for (const [role, more, status] of cases)
    assert.equal(refusedChange(role, { ...json, ...more })?.status, status, JSON.stringify(more));
});
