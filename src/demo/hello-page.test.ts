import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { demoClusters } from './demo-clusters.ts';
import { escapeHtml, helloPage } from './hello-page.ts';

const [cluster] = demoClusters;
const facts = { cluster, backend: 'hub-worker-0', protocol: 'http', forwardedFor: undefined } as const;

test('helloPage() names its cluster and backend, and links to the others on the same port', () => {
  const page = helloPage({ ...facts, host: 'hello.apps.hub.localhost:7443' });
  assert.match(page, /<h1>hub<\/h1>/);
  assert.match(page, /hub-worker-0/);
  for (const { appsDomain } of demoClusters) {
    assert.ok(page.includes(`href="http://hello.${appsDomain}:7443/"`));
    assert.ok(page.includes(`href="https://hello.${appsDomain}:7443/"`));
  }
});

test('helloPage() escapes everything from the request', () => {
  const plain = helloPage({ ...facts, host: 'x', forwardedFor: 'y' });
  const tags = (page: string) => page.split('<').length;
  fc.assert(
    fc.property(fc.string(), fc.string(), (host, forwardedFor) => {
      assert.equal(tags(helloPage({ ...facts, host, forwardedFor })), tags(plain));
    }),
  );
  assert.equal(escapeHtml(`<a href="x" b='&'>`), '&lt;a href=&quot;x&quot; b=&#39;&amp;&#39;&gt;');
});
