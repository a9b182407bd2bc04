// Health checks: when a backend is up, where connections go if it is down, and how changes are reported.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { certificateFor } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { ask } from './ask-admin.ts';
import { alert, Backend, bytes, connectClient, hello, proxyV2, servedBy, until } from './given.ts';

/** Frequent checks, with a time-out that a busy machine does not reach. */
const OFTEN = 'every: 50ms, timeout: 1m, rise: 2, fall: 3';

/** Waits for the log line of that change; `after` is the number of earlier ones. */
function change(gateway: Causeway, backend: string, up: boolean | null, after = 0): Promise<LogLine> {
  const fits = (line: LogLine) => line.msg === 'health' && line.backend === backend && line.up === up;
  return until(`${backend} to be ${up === null ? 'unknown' : up ? 'up' : 'down'}`, () =>
    gateway.lines().filter(fits).at(after),
  );
}

function checks(gateway: Causeway, backend: string, result: 'ok' | 'failed'): Promise<number> {
  return gateway.metric('causeway_health_checks_total', { backend, result });
}

/** Waits until that many checks are counted. */
async function checked(
  gateway: Causeway,
  backend: string,
  result: 'ok' | 'failed',
  least: number,
): Promise<void> {
  await until(`${least} checks of ${backend} that are ${result}`, async () => {
    return (await checks(gateway, backend, result)) >= least;
  });
}

const up = (gateway: Causeway, backend: string) => gateway.metric('causeway_backend_up', { backend });

/** States of the backends of a cluster's first route, from the API. */
async function states(gateway: Causeway, cluster: string): Promise<(boolean | null)[]> {
  const { json } = await ask(gateway, `/api/v1/clusters/${cluster}`);
  return json.routes[0].backends.map(({ up }: { up: boolean | null }) => up);
}

// Three at a time: starting its gateway takes most of a test's time.
describe('health', { concurrency: 3 }, () => {
  test('a backend is unknown until its first check, which counts at once', async () => {
    await using fine = await Backend.start({ name: 'fine' });
    await using silent = await Backend.start({ silent: true });
    const closed = `127.0.0.1:${await freePort()}`;
    const backends = (...texts: readonly string[]) => JSON.stringify(texts);
    // One check each during this test.
    const once = 'every: 1h, timeout: 1h, rise: 9, fall: 9';
    await using gateway = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
clusters:
  - name: lab
    api: { hosts: [api.test], backends: ${backends(fine.text, closed)}, health: { check: tcp, ${once} } }
  - name: slow
    api: { hosts: [slow.test], backends: ${backends(silent.text)}, health: { check: tls, ${once} } }
  - name: unchecked
    api: { hosts: [unchecked.test], backends: ${backends(fine.text)}, health: { check: none } }
  - name: nameless
    api: { hosts: [nameless.test], backends: ["nowhere.invalid:6443"], health: { check: tcp, ${once} } }
`,
    });
    const status = async () =>
      String((await run(causewayBin, ['status', '--admin', gateway.admin])).stdout).split('\n');
    const isDown = async (cluster: string) => (await states(gateway, cluster)).at(-1) === false;

    await until('the first check', async () => (await states(gateway, 'lab'))[0] === true);
    assert.equal((await silent.accepted()).end(), undefined, 'its check is under way');
    assert.deepEqual(await states(gateway, 'slow'), [null]);
    assert.deepEqual(await states(gateway, 'unchecked'), [null]);
    const shown = await status();
    for (const [cluster, backend] of [
      ['slow', silent.text],
      ['unchecked', fine.text],
    ]) {
      const line = shown.find(candidate => candidate.startsWith(`${cluster} `));
      assert.ok(line?.endsWith(`? ${backend}`), shown.join('\n'));
    }
    const { body } = await ask(gateway, '/metrics');
    assert.doesNotMatch(body, /^causeway_backend_up\{cluster="(unchecked|slow)"/m);
    // It is tried anyway.
    assert.equal(await servedBy(gateway.port, hello('unchecked.test')), 'fine');

    await until('one check to count', () => isDown('lab'));
    assert.equal((await change(gateway, closed, false)).why, 'connection refused');
    assert.equal(await checks(gateway, closed, 'failed'), 1);
    assert.deepEqual(await states(gateway, 'lab'), [true, false]);
    assert.equal(await checks(gateway, fine.text, 'ok'), 1);

    // A name that does not resolve is down, with that reason. The lookup may take a while.
    const nameless = await change(gateway, 'nowhere.invalid:6443', false);
    assert.equal(nameless.why, 'name not found');
    const { json } = await ask(gateway, '/api/v1/explain?host=nameless.test');
    assert.deepEqual([json.served, json.reason], [false, 'connect-failed']);
    assert.equal(
      json.stages.at(-1).text,
      'would fail: connect-failed; the only backend is down, but still tried: nowhere.invalid:6443 (name not found)',
    );
  });

  test('a backend that goes down gets no connections until it is up again', async () => {
    await using a = await Backend.start({ name: 'a' });
    const port = await freePort();
    const text = `127.0.0.1:${port}`;
    let b = await Backend.start({ name: 'b', on: { host: '127.0.0.1', port } });
    await using gateway = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
retries: 0
clusters:
  - name: lab
    api:
      hosts: [api.lab.test]
      balance: round-robin
      backends: ["${a.text}", "${text}"]
      health: { check: tcp, ${OFTEN} }
`,
    });
    const visits = async () => {
      const names = new Set<string>();
      for (let i = 0; i < 8; i++) names.add(await servedBy(gateway.port, hello('api.lab.test')));
      return [...names].toSorted();
    };
    try {
      await checked(gateway, text, 'ok', 2);
      assert.deepEqual(await visits(), ['a', 'b']);
      assert.equal(await up(gateway, text), 1);
      assert.deepEqual((await gateway.status()).health, { backends: 2, down: 0, stretch: 1 });

      await b[Symbol.asyncDispose]();
      const line = await change(gateway, text, false);
      const { time: _, ...fields } = line;
      assert.deepEqual(fields, {
        level: 'warn',
        cluster: 'lab',
        route: 'api',
        backend: text,
        up: false,
        why: 'connection refused',
        msg: 'health',
      });
      assert.ok((await checks(gateway, text, 'failed')) >= 3);
      assert.equal(await up(gateway, text), 0);
      assert.equal(await up(gateway, a.text), 1);
      assert.deepEqual((await gateway.status()).health, { backends: 2, down: 1, stretch: 1 });
      const explained = await fetch(`${gateway.admin}/api/v1/explain?host=api.lab.test`);
      assert.equal(((await explained.json()) as { backend: unknown }).backend, a.text);
      const backend = async () => {
        const { json } = await ask(gateway, '/api/v1/clusters/lab');
        return json.routes[0].backends.find(({ address }: { address: string }) => address === text);
      };
      const { since, ...reported } = await backend();
      assert.deepEqual(reported, {
        address: text,
        up: false,
        health: 'tcp',
        why: 'connection refused',
        connections: 0,
      });
      assert.ok(
        Math.abs(Date.parse(since) - Date.parse(String(line.time))) < 60_000,
        `${since}, ${line.time}`,
      );
      // Without retries, a connection to it would fail.
      assert.deepEqual(await visits(), ['a']);
      const failed = gateway.connections().filter(({ reason }) => reason !== 'done');
      assert.deepEqual(failed, []);

      b = await Backend.start({ name: 'b', on: { host: '127.0.0.1', port } });
      const back = await change(gateway, text, true);
      assert.deepEqual([back.level, back.why], ['info', 'connected']);
      assert.equal((await backend()).why, 'connected');
      assert.ok((await backend()).since > since);
      assert.equal(await up(gateway, text), 1);
      assert.deepEqual((await gateway.status()).health, { backends: 2, down: 0, stretch: 1 });
      assert.deepEqual(await visits(), ['a', 'b']);
    } finally {
      await b[Symbol.asyncDispose]();
    }
  });

  test('every backend is tried when all are down, and a down one last when another is up', async () => {
    await using plain = await Backend.start({ name: 'plain' });
    const [closed, alsoClosed] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    await using gateway = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
retries: 1
clusters:
  - name: down
    api:
      hosts: [down.test]
      balance: round-robin
      backends: ["${closed}", "${plain.text}"]
      health: { check: tls, ${OFTEN} }
  - name: last
    api:
      hosts: [last.test]
      balance: random
      backends: ["${plain.text}", "${alsoClosed}"]
      health: { check: tcp, ${OFTEN} }
`,
    });
    const [refused, notTls, last] = await Promise.all([
      change(gateway, closed, false),
      until('the plain one to be down', () =>
        gateway
          .lines()
          .find(
            ({ msg, cluster, backend }) => msg === 'health' && cluster === 'down' && backend === plain.text,
          ),
      ),
      change(gateway, alsoClosed, false),
    ]);
    assert.deepEqual(
      [refused.why, notTls.why, last.why],
      ['connection refused', 'the answer is not TLS', 'connection refused'],
    );
    // Both are down, so both are tried: round-robin may start with either.
    for (let i = 0; i < 4; i++) assert.equal(await servedBy(gateway.port, hello('down.test')), 'plain');
    for (let i = 0; i < 8; i++) assert.equal(await servedBy(gateway.port, hello('last.test')), 'plain');
  });

  test('a backend that accepts and never answers is down for tls and up for tcp', async () => {
    await using silent = await Backend.start({ silent: true });
    await using gateway = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
clusters:
  - name: lab
    api:
      hosts: [api.test]
      backends: ["${silent.text}"]
      health: { check: tls, every: 50ms, timeout: 200ms, fall: 1 }
    konnectivity:
      hosts: [konnectivity.test]
      backends: ["${silent.text}"]
      health: { check: tcp, every: 50ms, timeout: 1m }
`,
    });
    const line = await change(gateway, silent.text, false);
    assert.deepEqual([line.route, line.why], ['api', 'no TLS handshake within 200ms']);
    await until('checks by tcp', async () => {
      return (
        (await gateway.metric('causeway_health_checks_total', { route: 'konnectivity', result: 'ok' })) > 3
      );
    });
    assert.equal(await gateway.metric('causeway_backend_up', { route: 'konnectivity' }), 1);
    assert.equal(await gateway.metric('causeway_backend_up', { route: 'api' }), 0);
  });

  describe('tls', { skip: missingPrograms('openssl') }, () => {
    test('sends the first exact host as SNI, or serverName', async () => {
      const { certFile, keyFile } = await certificateFor('backend.test');
      const names = new Set<string | false | null>();
      const server = createTlsServer(
        { cert: await readFile(certFile), key: await readFile(keyFile) },
        socket => {
          names.add(socket.servername);
          socket.on('error', () => {});
        },
      );
      await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as { port: number };
      try {
        await using gateway = await startCauseway({
          config: `
listen: ["127.0.0.1:0"]
clusters:
  - name: lab
    api: { hosts: ["*.api.test", api.test], backends: ["127.0.0.1:${port}"], health: { every: 50ms, timeout: 1m } }
    routes:
      named: { hosts: [x.test], backends: ["127.0.0.1:${port}"], health: { check: tls, every: 50ms, timeout: 1m, serverName: y.test } }
      none: { hosts: ["*.z.test"], backends: ["127.0.0.1:${port}"], health: { check: tls, every: 50ms, timeout: 1m } }
`,
        });
        await until('all names', () => names.size >= 3);
        assert.deepEqual([...names].map(String).toSorted(), ['api.test', 'false', 'y.test']);
        assert.deepEqual((await gateway.status()).health, { backends: 3, down: 0, stretch: 1 });
      } finally {
        server.close();
      }
    });
  });

  test('a server that answers the handshake with an alert is up', async () => {
    await using refuses = await Backend.start({ silent: true });
    const answered = new Set<unknown>();
    const answering = setInterval(() => {
      for (const peer of refuses.connections) {
        if (answered.has(peer) || peer.received().length === 0) continue;
        answered.add(peer);
        peer.send(alert(112));
        peer.finish();
      }
    }, 5);
    try {
      await using gateway = await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
clusters:
  - name: lab
    api: { hosts: [api.test], backends: ["${refuses.text}"], health: { every: 50ms, timeout: 1m, fall: 1 } }
`,
      });
      await checked(gateway, refuses.text, 'ok', 3);
      assert.equal(await checks(gateway, refuses.text, 'failed'), 0);
      assert.equal(await up(gateway, refuses.text), 1);
    } finally {
      clearInterval(answering);
    }
  });

  test('a check sends LOCAL or UNKNOWN to a backend with proxyProtocol', async () => {
    await using v1 = await Backend.start({ silent: true });
    await using v2 = await Backend.start({ silent: true });
    await using _gateway = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
clusters:
  - name: lab
    api: { hosts: [api.test], backends: ["${v1.text}"], proxyProtocol: v1, health: { check: tcp, every: 50ms, timeout: 1m } }
    konnectivity: { hosts: [k.test], backends: ["${v2.text}"], proxyProtocol: v2, health: { check: tcp, every: 50ms, timeout: 1m } }
`,
    });
    const [first, second] = await Promise.all([v1.accepted(), v2.accepted()]);
    assert.equal(await first.untilEnd(), 'FIN');
    assert.equal(await second.untilEnd(), 'FIN');
    assert.deepEqual(first.received(), bytes('PROXY UNKNOWN\r\n'));
    assert.deepEqual(second.received(), bytes(proxyV2({})));
  });

  test('an edit of health applies at once and keeps the state of backends', async () => {
    await using plain = await Backend.start({ name: 'plain' });
    const closed = `127.0.0.1:${await freePort()}`;
    const config = (health: string, backends = [plain.text, closed]) => `
listen: ["127.0.0.1:0"]
retries: 0
clusters:
  - name: lab
    api: { hosts: [api.test], balance: round-robin, backends: ${JSON.stringify(backends)}, health: { ${health} } }
`;
    await using gateway = await startCauseway({ config: config(`check: tcp, ${OFTEN}`) });
    const edit = async (text: string) => {
      const { generation } = (await gateway.status()) as { generation: number };
      await gateway.write(text);
      // The status has the new generation before all of it is in effect; the log line follows afterwards.
      await gateway.line(line => line.msg === 'applied' && Number(line.generation) > generation);
    };
    await change(gateway, closed, false);
    await checked(gateway, plain.text, 'ok', 1);

    // Other settings: a down backend stays down, without a log line.
    await edit(config('check: tcp, every: 60ms, timeout: 1m, fall: 5'));
    assert.equal(await up(gateway, closed), 0);
    for (let i = 0; i < 4; i++) assert.equal(await servedBy(gateway.port, hello('api.test')), 'plain');

    // A check that the plain backend cannot pass.
    await edit(config('check: tls, every: 50ms, timeout: 1m, fall: 1'));
    assert.equal((await change(gateway, plain.text, false)).why, 'the answer is not TLS');
    assert.deepEqual((await gateway.status()).health, { backends: 2, down: 2, stretch: 1 });

    // No checks: states are unknown, all backends are tried.
    await edit(config('check: none'));
    const back = await change(gateway, closed, null);
    assert.deepEqual([back.level, back.why], ['info', 'no longer checked']);
    assert.deepEqual((await gateway.status()).health, { backends: 2, down: 0, stretch: 1 });
    assert.deepEqual(await states(gateway, 'lab'), [null, null]);
    const { body } = await ask(gateway, '/metrics');
    assert.doesNotMatch(body, /^causeway_backend_up/m);
    assert.equal(await gateway.metric('causeway_health_checks_total'), 0);

    // Checked again, then removed while it is down.
    await edit(config(`check: tcp, ${OFTEN}`));
    await change(gateway, closed, false, 1);
    await edit(config(`check: tcp, ${OFTEN}`, [plain.text]));
    // An earlier edit may have been read twice; then edit() saw its second line.
    await until('one backend less', async () => {
      return ((await gateway.status()).health as { backends: number }).backends === 1;
    });
    await until('nothing down', async () => ((await gateway.status()).health as { down: number }).down === 0);
    assert.doesNotMatch(
      await (await fetch(`${gateway.admin}/metrics`)).text(),
      new RegExp(`backend="${closed}"`),
    );
  });

  test('an open connection continues when its backend goes down', async () => {
    await using plain = await Backend.start({ name: 'plain' });
    await using gateway = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
clusters:
  - name: lab
    api: { hosts: [api.test], backends: ["${plain.text}"], health: { every: 300ms, timeout: 1m, fall: 2 } }
`,
    });
    using client = await connectClient(gateway.port);
    client.send(hello('api.test'));
    await client.receives('plain\n');
    await change(gateway, plain.text, false);
    client.finish();
    assert.equal(await client.untilEnd(), 'FIN');
  });
});
