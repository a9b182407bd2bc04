// Why a backend was not reached: `error` in the connection's log line, which is a warning, and in its event, for
// connections, HTTP requests and an agent's uplinks.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { authority } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startAgent } from '../../testbed/start-agent.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { writeKey } from './agent-given.ts';
import { Events } from './ask-admin.ts';
import { supports } from './engine.ts';
import { Backend, connectClient, hello, lineOf, startBlackHole, visit } from './given.ts';
import { HttpClient } from './http-given.ts';

let gateway: Causeway;
let closed: number;
const stack = new AsyncDisposableStack();

before(async () => {
  const hole = stack.use(await startBlackHole());
  closed = await freePort();
  const backends = [
    ['refused', `127.0.0.1:${closed}`],
    // The kernel has no route there.
    ['unreachable', '255.255.255.255:9'],
    ['timeout', `127.0.0.1:${hole.port}`],
    ['name-not-found', 'nowhere.invalid:443'],
  ] as const;
  const clusters = backends.map(
    ([name, backend]) => `
  - name: ${name}
    api: { hosts: [${name}.test], backends: ["${backend}"] }
    apps: { hosts: [${name}.web.test], http: ["${backend}"] }`,
  );
  gateway = stack.use(
    await startCauseway({
      config: `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
timeouts: { connect: 200ms }
retries: 1
clusters:${clusters.join('')}
`,
    }),
  );
});

after(() => stack.disposeAsync());

const errors = [
  ['refused', 'connect-failed', 502],
  ['unreachable', 'connect-failed', 502],
  ['timeout', 'connect-timeout', 504],
  ['name-not-found', 'connect-failed', 502],
] as const;

describe('a backend that is not reached', { concurrency: true }, () => {
  for (const [error, reason, status] of errors) {
    test(`${error}: over TLS`, async () => {
      const visited = await visit(gateway.port, hello(`${error}.test`));
      const line = await lineOf(gateway, visited);
      assert.deepEqual([line.reason, line.error, line.level], [reason, error, 'warn']);
    });

    if (supports('connect')) {
      test(`${error}: over CONNECT`, async () => {
        const visited = await visit(gateway.port, `CONNECT ${error}:443 HTTP/1.1\r\n\r\n`);
        assert.match(visited.received.toString(), new RegExp(`^HTTP/1.1 ${status} `));
        const line = await lineOf(gateway, visited);
        assert.deepEqual([line.reason, line.error, line.level], [reason, error, 'warn']);
      });
    }

    for (const method of ['GET', 'POST']) {
      test(`${error}: ${method} over HTTP`, async () => {
        using client = await HttpClient.connect(gateway.port);
        client.send(`${method} / HTTP/1.1\r\nHost: ${error}.web.test\r\nContent-Length: 0\r\n\r\n`);
        assert.equal((await client.lastAnswer(method)).status, status);
        const line = await lineOf(gateway, client);
        assert.deepEqual([line.reason, line.error, line.level], [reason, error, 'warn']);
      });
    }
  }

  test('is in the refusal event', async () => {
    using events = await Events.open(gateway);
    const { address } = await visit(gateway.port, hello('refused.test'));
    const { reason, error } = await events.event('refusal', ({ peer }) => peer === address);
    assert.deepEqual([reason, error], ['connect-failed', 'refused']);
  });
});

test('other refusals have no error and are not warnings', async () => {
  const line = await lineOf(gateway, await visit(gateway.port, hello('unknown.test')));
  assert.deepEqual([line.reason, line.error, line.level], ['unknown-host', null, 'info']);
});

describe('a gateway that an agent does not reach', { skip: missingPrograms('openssl') }, () => {
  test('reset: it resets an agent’s CONNECT', async () => {
    await using breaking = await Backend.start({ silent: true });
    await using agent = await startAgent({ uplink: 'connect', gateway: breaking.text, id: 'a-1' });
    using client = await connectClient(agent.port);
    client.send(hello('a.test'));
    // Its four attempts.
    for (let attempt = 0; attempt < 4; attempt++) {
      const asked = await breaking.accepted(attempt);
      await asked.receives('CONNECT a-1');
      asked.reset();
    }
    await client.untilEnd();
    const line = await agent.line(({ msg, peer }) => msg === 'connection' && peer === client.address);
    assert.deepEqual([line.reason, line.error, line.level], ['connect-failed', 'reset', 'warn']);
  });

  for (const [error, host] of [
    ['refused', '127.0.0.1'],
    ['name-not-found', 'nowhere.invalid'],
  ] as const) {
    test(`${error}: by an agent’s tunnel`, async () => {
      const { certFile } = await authority();
      await using dir = await tempDir();
      const key = dir.file('key');
      await writeKey(key, 'a-1');
      await using agent = await startAgent({
        uplink: 'tunnel',
        gateway: `${host}:${closed}`,
        id: 'a-1',
        args: ['--server-name', 'tunnel.test', '--ca-file', certFile, '--key-file', key],
      });
      const { address } = await visit(agent.port, hello('a.test'));
      const line = await agent.line(({ msg, peer }) => msg === 'connection' && peer === address);
      assert.deepEqual([line.reason, line.error, line.level], ['connect-failed', error, 'warn']);
    });
  }
});
