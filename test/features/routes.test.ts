// Which route a server name selects: exact before wildcard, one label only, case-insensitive, and only kinds that the
// listener serves.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { alert, Backend, hello, lineOf, servedBy, visit } from './given.ts';

let gateway: Causeway;
const stack = new AsyncDisposableStack();

before(async () => {
  const backend = async (name: string) => stack.use(await Backend.start({ name })).text;
  gateway = stack.use(
    await startCauseway({
      config: `
listen:
  - "127.0.0.1:0"
  - { on: "127.0.0.2:0", only: [api, oauth] }
clusters:
  - name: lab
    api: { hosts: [api.lab.test], backends: ["${await backend('api')}"] }
    konnectivity: { hosts: [konnectivity.lab.test], backends: ["${await backend('konnectivity')}"] }
    apps: { hosts: ["*.apps.lab.test"], https: ["${await backend('apps')}"], http: redirect }
    routes:
      oauth: { hosts: [oauth.apps.lab.test], backends: ["${await backend('oauth')}"] }
`,
    }),
  );
});

after(() => stack.disposeAsync());

describe('a server name selects', { concurrency: true }, () => {
  for (const [host, expected] of [
    ['api.lab.test', 'api'],
    ['API.Lab.TEST', 'api'],
    ['konnectivity.lab.test', 'konnectivity'],
    ['console.apps.lab.test', 'apps'],
    ['Console.Apps.lab.test', 'apps'],
    ['oauth.apps.lab.test', 'oauth'],
  ] as const) {
    test(`${host} → ${expected}`, async () => {
      assert.equal(await servedBy(gateway.port, hello(host)), expected);
    });
  }
});

describe('a server name that selects nothing gets alert 112', { concurrency: true }, () => {
  for (const [host, reason] of [
    ['lab.test', 'unknown-host'],
    ['apps.lab.test', 'unknown-host'],
    ['a.b.apps.lab.test', 'unknown-host'],
    ['*.apps.lab.test', 'no-sni'],
    ['127.0.0.1', 'no-sni'],
    ['under score.lab.test', 'no-sni'],
    ['under score.apps.lab.test', 'no-sni'],
    ['-dash.apps.lab.test', 'no-sni'],
  ] as const) {
    test(`${host} → ${reason}`, async () => {
      const { received, address, since } = await visit(gateway.port, hello(host));
      assert.deepEqual(received, alert(112));
      const line = await lineOf(gateway, { address, since });
      assert.deepEqual([line.reason, line.host], [reason, reason === 'no-sni' ? null : host]);
    });
  }
});

test('a listener with `only` serves those kinds, and others are unknown-host there', async () => {
  const there = { to: '127.0.0.2' };
  assert.equal(await servedBy(gateway.ports[1], hello('api.lab.test'), there), 'api');
  assert.equal(await servedBy(gateway.ports[1], hello('oauth.apps.lab.test'), there), 'oauth');
  for (const host of ['konnectivity.lab.test', 'console.apps.lab.test']) {
    const { received, address, since } = await visit(gateway.ports[1], hello(host), there);
    assert.deepEqual(received, alert(112));
    const { reason, listener } = await lineOf(gateway, { address, since });
    assert.deepEqual([reason, listener], ['unknown-host', '127.0.0.2:0']);
  }
});
