import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { Hono } from 'hono';
import { dashboardFiles } from './dashboard.ts';

const routes = new Hono();
for (const { path, answer } of dashboardFiles()) routes.get(path, answer);

test('dashboardFiles() serves a page that allows files of its own only', async () => {
  const answer = await routes.request('/');
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('Content-Type'), 'text/html; charset=utf-8');
  const policy = answer.headers.get('Content-Security-Policy') ?? '';
  assert.match(policy, /^default-src 'none'; /);
  assert.match(policy, /; style-src 'self';/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  const html = await answer.text();
  const inline = [...html.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map(match => match[1]).filter(Boolean);
  assert.equal(inline.length, 1, 'the import map is the only inline script');
  const hash = createHash('sha256').update(inline[0]).digest('base64');
  assert.ok(policy.includes(`script-src 'self' 'sha256-${hash}';`), policy);
  assert.doesNotMatch(html, /https?:\/\/|<style|\sstyle=|\son\w+=/);
});

test('dashboardFiles() serves every file that the page and its scripts name, without types', async () => {
  const page = await (await routes.request('/')).text();
  const names = new Set([...page.matchAll(/"(?:\.\/)?dashboard\/([\w.-]+)"/g)].map(match => match[1]));
  assert.ok(names.has('main.js'));
  for (const name of names) {
    const answer = await routes.request(`/dashboard/${name}`);
    assert.equal(answer.status, 200, name);
    assert.equal(answer.headers.get('X-Content-Type-Options'), 'nosniff');
    const text = await answer.text();
    if (!/\.(js|ts)$/.test(name)) continue;
    assert.match(answer.headers.get('Content-Type') ?? '', /^text\/javascript/);
    assert.doesNotMatch(text, /^import type|^export interface|: readonly /m, name);
    for (const [, imported] of text.matchAll(/\bfrom '\.\/([\w.-]+)'/g)) names.add(imported);
  }
  assert.ok(names.has('format.ts'), [...names].join(' '));
});

test('dashboardFiles() answers 304 to a client that has the file', async () => {
  for (const path of ['/', '/dashboard/main.js']) {
    const first = await routes.request(path);
    const etag = first.headers.get('ETag') ?? '';
    assert.match(etag, /^"[\w-]{22}"$/);
    const again = await routes.request(path, { headers: { 'If-None-Match': etag } });
    assert.deepEqual([again.status, await again.text()], [304, '']);
    assert.equal((await routes.request(path, { headers: { 'If-None-Match': '"other"' } })).status, 200);
  }
});

test('dashboardFiles() serves nothing else', async () => {
  for (const name of [
    'index.html',
    'tsconfig.json',
    'format.test.ts',
    '..%2fpackage.json',
    'static',
    'toString',
  ])
    assert.equal((await routes.request(`/dashboard/${name}`)).status, 404, name);
});
