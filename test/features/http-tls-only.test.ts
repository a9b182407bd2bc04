// Cleartext HTTP to a host that is served over TLS only: 421 as for every host without HTTP, with a message
// that names the https URL. The worker sends it.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { lineOf } from './given.ts';
import { HttpClient } from './http-given.ts';

const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());

const config = (more: string) => `
listen:
  - "127.0.0.1:0"
  - { on: "127.0.0.1:0", only: [apps-http] }
clusters:
  - name: lab
    api: { hosts: [api.test], backends: [] }
    apps: { hosts: ["*.apps.test"], https: [] }
    routes: { own: { hosts: [own.test], alpn: [own], backends: [] } }
${more}
`;
const http = '  - { name: other, apps: { hosts: [other.test], https: [], http: [] } }';

const gateways: Record<string, Causeway> = {
  'the front': stack.use(await startCauseway({ config: config('') })),
  'the HTTP part': stack.use(await startCauseway({ config: config(http) })),
};

const NOTHING = 'no such host is served here';
const REDIRECT = '(with "apps.http: redirect" the gateway would send clients there)';

for (const [whose, gateway] of Object.entries(gateways)) {
  for (const [host, text] of [
    ['api.test', 'this host is served over TLS only: use https://api.test'],
    ['API.test:80', 'this host is served over TLS only: use https://API.test'],
    ['api.test:8443', 'this host is served over TLS only: use https://api.test:8443'],
    ['a.apps.test', `this host is served over TLS only: use https://a.apps.test ${REDIRECT}`],
    ['own.test', NOTHING],
    ['nobody.test', NOTHING],
    ['192.0.2.1', NOTHING],
  ]) {
    test(`${whose} answers ${host} with: ${text}`, async () => {
      using visitor = await HttpClient.connect(gateway.port);
      visitor.ask(host, '/path?query');
      const { status, headers, body } = await visitor.lastAnswer();
      assert.deepEqual([status, body.toString()], [421, `unknown-host: ${text}\n`]);
      assert.equal(headers['content-length'], String(body.length));
      const line = await lineOf(gateway, visitor);
      assert.deepEqual(
        [line.reason, line.out, line.cluster],
        ['unknown-host', visitor.peer.received().length, null],
      );
    });
  }

  test(`${whose} does not mention TLS if the listener does not serve it`, async () => {
    using visitor = await HttpClient.connect(gateway.ports[1]);
    assert.equal((await visitor.get('api.test')).body.toString(), `unknown-host: ${NOTHING}\n`);
  });
}
