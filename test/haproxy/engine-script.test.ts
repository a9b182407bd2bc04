// The script for an HAProxy that we drive, in HAProxy 2.6 and 3.0: PROXY headers and TLS alerts.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import * as fc from 'fast-check';
import { ENGINE_SCRIPT, headerRules } from '../../src/haproxy/engine-script.ts';
import { buildProxyV1 } from '../../src/wire/proxy-protocol.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Haproxy, startHaproxy } from '../../testbed/start-haproxy.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { alert, Backend, bytes, connectClient, hello, proxyV2, visit } from '../features/given.ts';

const BALANCER = '127.0.0.3';
const AGENT = '127.0.0.2';
const STRANGER = '127.0.0.4';
const CLIENT = '192.0.2.7';
const TLS = hello('x.test');

const skip = missingPrograms('haproxy', 'debootstrap');

for (const version of ['2.6', '3.0'] as const) {
  describe(`ENGINE_SCRIPT in HAProxy ${version}`, { skip }, () => {
    const stack = new AsyncDisposableStack();
    let backend: Backend;
    let port: number;
    let proxy: Haproxy;

    before(async () => {
      backend = stack.use(await Backend.start({ name: 'served' }));
      port = await freePort();
      const dir = stack.use(await tempDir());
      await writeFile(dir.file('headers.lua'), ENGINE_SCRIPT);
      const listener = {
        balancers: [`${BALANCER}/32`],
        agents: [`${AGENT}/32`, `${CLIENT}/32`],
        idTlv: [0x20, 0x05],
      };
      const config = `
global
  lua-load-per-thread ${dir.file('headers.lua')}
  log stdout format raw daemon
defaults
  mode tcp
  log global
  timeout connect 3s
  timeout client 1h
  timeout server 1h
frontend f
  bind 127.0.0.1:${port}
  log-format "id=%[var(sess.id)] origin=%[var(sess.origin)] reason=%[var(txn.reason)] ts=%ts"
  tcp-request inspect-delay 2s
  ${headerRules(listener).join('\n  ')}
  tcp-request content reject if { var(txn.reason) -m found }
  tcp-request content reject unless { req.ssl_hello_type 1 }
  tcp-request content set-var(txn.reason) str(unknown-host) unless { req.ssl_sni x.test y.test }
  tcp-request content set-var(txn.protocol) str(tls)
  tcp-request content lua.refusal if { var(txn.reason) -m found }
  tcp-request content reject if { var(txn.reason) -m found }
  use_backend b if { req.ssl_sni x.test }
  use_backend closed if { req.ssl_sni y.test }
backend closed
  tcp-request content set-var(txn.reason) str(not-allowed)
  tcp-request content lua.refusal
  tcp-request content reject
backend b
  server s ${backend.text} send-proxy-v2
`;
      proxy = stack.use(await startHaproxy({ config, ...(version === '3.0' && { version }) }));
    });
    after(() => stack.disposeAsync());

    /** What the backend got after its own PROXY header, or undefined if the client was refused. */
    async function ask(from: string, ...said: readonly Uint8Array[]) {
      const index = backend.connections.length;
      using client = await connectClient(port, { from });
      for (const [i, part] of said.entries()) {
        if (i > 0) await new Promise(resolve => setTimeout(resolve, 30));
        client.send(part);
      }
      await client.receivesOrEnds(7);
      if (client.received().length === 0) return undefined;
      const peer = await backend.accepted(index);
      const heard = await peer.receives(TLS);
      assert.deepEqual(heard.subarray(28), Buffer.from(TLS), 'the header is removed');
      client.finish();
      await client.untilEnd();
      return [...heard.subarray(16, 20)].join('.');
    }

    const balanced = proxyV2({ source: CLIENT });
    const agents = (id: string, ...more: readonly [number, string][]) =>
      proxyV2({ source: '198.51.100.1', id, tlvs: more });

    test('a header is optional', async () => {
      for (const from of [BALANCER, AGENT, STRANGER]) assert.equal(await ask(from, TLS), from);
    });

    test("a balancer's header tells the client", async () => {
      assert.equal(await ask(BALANCER, bytes(balanced, TLS)), CLIENT);
      assert.equal(await ask(BALANCER, bytes(proxyV2({ source: CLIENT, crc32c: true }), TLS)), CLIENT);
      assert.equal(await ask(BALANCER, bytes(proxyV2({}), TLS)), BALANCER);
      const v1 = (text: string) => bytes(`PROXY ${text}\r\n`, TLS);
      assert.equal(await ask(BALANCER, v1(`TCP4 ${CLIENT} 192.0.2.1 1 2`)), CLIENT);
      assert.equal(await ask(BALANCER, v1('UNKNOWN')), BALANCER);
      assert.equal(await ask(BALANCER, v1(`TCP6 ${CLIENT} 192.0.2.1 1 2`)), undefined);
    });

    test("an agent's header names a cluster, and does not tell the client", async () => {
      assert.equal(await ask(AGENT, bytes(agents('id-1'), TLS)), AGENT);
      await proxy.logged(/id=id-1 origin=198\.51\.100\.1 reason=- ts=--/);
    });

    test('headers are stacked', async () => {
      assert.equal(await ask(BALANCER, bytes(balanced, agents('id-2'), TLS)), CLIENT);
      await proxy.logged(/id=id-2 origin=198\.51\.100\.1 reason=- ts=--/);
    });

    test('headers may be cut anywhere', async () => {
      const all = bytes(balanced, agents('id-3'), TLS);
      for (const cut of [1, 5, 12, 16, 28, 29, 40, 60, all.length - TLS.length, all.length - 5])
        assert.equal(await ask(BALANCER, all.subarray(0, cut), all.subarray(cut)), CLIENT, `${cut}`);
    });

    test('what is not acceptable is refused', async () => {
      const crc = proxyV2({ source: CLIENT, crc32c: true });
      crc[crc.length - 1] ^= 1;
      const refused: readonly [from: string, said: Uint8Array][] = [
        [BALANCER, bytes(crc, TLS)],
        [STRANGER, bytes(balanced, TLS)],
        [STRANGER, bytes(buildProxyV1(undefined, undefined), TLS)],
        [AGENT, bytes(agents('a', [0x05, 'b']), TLS)],
        [AGENT, bytes(agents('a'), agents('a'), TLS)],
        [BALANCER, bytes(balanced, agents('a'), agents('a'), TLS)],
        [BALANCER, bytes('PROXY TCP4 x y 1 2\r\n', TLS)],
      ];
      for (const [from, said] of refused)
        assert.equal(await ask(from, said), undefined, `${from} ${Buffer.from(said)}`);
      assert.equal(await ask(AGENT, bytes(agents('a', [0x05, 'a']), TLS)), AGENT);
    });

    test('a refused hello gets an alert, and FIN', async () => {
      for (const [host, code] of [
        ['other.test', 112],
        ['y.test', 49],
      ] as const) {
        const { received, end } = await visit(port, hello(host));
        assert.deepEqual([received, end], [alert(code), 'FIN']);
      }
      await proxy.logged(/reason=unknown-host/);
      await proxy.logged(/reason=not-allowed/);
    });

    test('hostile headers harm nobody', async () => {
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ maxLength: 60 }), async rest => {
          const signature = bytes('\r\n\r\n\0\r\nQUIT\n\x21\x11\x00');
          await visit(port, bytes(signature, Uint8Array.of(rest.length), rest, '\0\0'), { from: AGENT });
        }),
        { numRuns: 30 },
      );
      assert.equal(await ask(AGENT, TLS), AGENT);
    });
  });
}
