// Edits of the config file: however it is replaced, a valid one is applied and an invalid one is not, and open
// connections continue unless they are no longer allowed. A witness connection is checked after every test.

import assert from 'node:assert/strict';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { type Causeway, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';
import {
  alert,
  Backend,
  type ClientOptions,
  connectClient,
  hello,
  isClosed,
  lineOf,
  type Peer,
  servedBy,
  startBlackHole,
  until,
  visit,
} from './given.ts';

const ADMIN = 'admin: { on: "127.0.0.1:0" }';

interface Status {
  readonly generation: number;
  readonly listeners: readonly { readonly on: string; readonly address: string }[];
  readonly config: {
    readonly ok: boolean;
    readonly error: string | null;
    readonly restartNeeded: readonly string[];
  };
}

let backend: Backend;
let silent: Backend;
let gateway: Causeway;
let witness: Peer;
let witnessed: Peer;
const stack = new AsyncDisposableStack();

before(async () => {
  backend = stack.use(await Backend.start({ name: 'backend' }));
  silent = stack.use(await Backend.start({ silent: true }));
  gateway = stack.use(await startCauseway({ config: file() }));
  [witness, witnessed] = await tunnel('witness.test');
});

after(() => stack.disposeAsync());

afterEach(async () => {
  const heard = [witness.received().length, witnessed.received().length];
  witness.send('ping');
  await witnessed.receives(heard[1] + 4);
  witnessed.send('pong');
  await witness.receives(heard[0] + 4);
  assert.deepEqual(
    gateway.lines().filter(({ msg }) => msg === 'thread died'),
    [],
  );
});

interface FileParts {
  readonly clusters?: string;
  readonly listen?: string;
  readonly more?: string;
}

/** Starts with the witness's cluster, which no test changes. */
function file({ clusters = '', listen = '', more = '' }: FileParts = {}): string {
  return `${more.includes('admin:') ? '' : `${ADMIN}\n`}listen: ["127.0.0.1:0"${listen}]
clusters:
  - { name: witness, api: { hosts: [witness.test], backends: ["${silent.text}"] } }
${clusters}
${more}
`;
}

function cluster(name: string, { allow = '', api = '' } = {}): string {
  const list = allow === '' ? '' : `allow: [${allow}], `;
  return `  - { name: ${name}, ${list}api: { hosts: [${name}.test], backends: ["${backend.text}"]${api} } }\n`;
}

async function status(): Promise<Status> {
  return (await gateway.status()) as unknown as Status;
}

/** Waits until the file that `change` wrote is applied. */
async function apply(change: () => unknown): Promise<void> {
  const line = await judged(change);
  assert.equal(line.msg, 'applied', String(line.error));
}

/** Waits until the file that `change` wrote is refused; returns the error from the status. */
async function refuse(change: () => unknown): Promise<string> {
  const { generation } = await status();
  const line = await judged(change);
  assert.deepEqual([line.msg, line.level], ['file refused; keeping the previous configuration', 'error']);
  const { config, generation: still } = await status();
  assert.deepEqual([config.ok, config.error, still], [false, line.error, generation]);
  assert.equal(await gateway.metric('causeway_config_ok'), 0);
  return String(line.error);
}

/** The next log line about the file: applied or refused. */
async function judged(change: () => unknown): Promise<LogLine> {
  const judgements = () =>
    gateway.lines().filter(({ msg }) => msg === 'applied' || msg.startsWith('file refused'));
  const before = judgements().length;
  await change();
  return until('the file to be applied or refused', () => judgements()[before]);
}

async function tunnel(host: string, options: ClientOptions = {}, port = gateway.port): Promise<[Peer, Peer]> {
  const client = stack.adopt(await connectClient(port, options), peer => peer[Symbol.dispose]());
  client.send(hello(host), client.address);
  const served = await until(`${client.address} to be served`, () =>
    [...silent.connections, ...backend.connections].find(peer => peer.received().includes(client.address)),
  );
  return [client, served];
}

async function isServed(host: string): Promise<boolean> {
  using client = await connectClient(gateway.port);
  client.send(hello(host));
  await client.receivesOrEnds('backend'.length);
  return client.received().toString().startsWith('backend');
}

async function isUnknown(host: string): Promise<void> {
  assert.deepEqual((await visit(gateway.port, hello(host))).received, alert(112));
}

describe('a valid file is applied', () => {
  test('written in place', async () => {
    await isUnknown('in-place.test');
    await apply(() => gateway.write(file({ clusters: cluster('in-place') })));
    assert.equal(await servedBy(gateway.port, hello('in-place.test')), 'backend');
  });

  test('renamed over the old one', async () => {
    await writeFile(`${gateway.file}.new`, file({ clusters: cluster('renamed') }));
    await apply(() => rename(`${gateway.file}.new`, gateway.file));
    assert.equal(await servedBy(gateway.port, hello('renamed.test')), 'backend');
    await isUnknown('in-place.test');
  });

  test("swapped like a ConfigMap's symlink", async () => {
    const folder = dirname(gateway.file);
    const version = async (name: string) => {
      await mkdir(join(folder, `..${name}`));
      await writeFile(join(folder, `..${name}`, 'causeway.yaml'), file({ clusters: cluster(name) }));
    };
    const pointAt = async (target: string, link: string) => {
      await symlink(target, join(folder, 'new'));
      await rename(join(folder, 'new'), join(folder, link));
    };
    await version('first');
    await pointAt('..first', '..data');
    await apply(() => pointAt('..data/causeway.yaml', 'causeway.yaml'));
    assert.equal(await servedBy(gateway.port, hello('first.test')), 'backend');

    for (const name of ['second', 'third']) {
      await version(name);
      await apply(() => pointAt(`..${name}`, '..data'));
      assert.equal(await servedBy(gateway.port, hello(`${name}.test`)), 'backend');
    }
    await isUnknown('first.test');
    await writeFile(`${gateway.file}.new`, file());
    await apply(() => rename(`${gateway.file}.new`, gateway.file));
  });

  test('reloaded on SIGHUP, changed or not', async () => {
    await apply(() => gateway.program.signal('SIGHUP'));
  });

  test('the last of many in quick succession', async () => {
    for (let i = 0; i < 30; i++) await gateway.write(file({ clusters: cluster(`turn-${i}`) }));
    await until('the last one', () => isServed('turn-29.test'));
    await isUnknown('turn-28.test');
  });

  test('and counted: generation in status and metrics', async () => {
    const { generation } = await status();
    await apply(() => gateway.write(file()));
    assert.equal((await status()).generation, generation + 1);
    assert.equal(await gateway.metric('causeway_table_generation'), generation + 1);
    assert.equal(await gateway.metric('causeway_config_ok'), 1);
  });
});

test('listeners are opened and closed without a restart, and their connections stay', async () => {
  const port = await freePort();
  const on = `127.0.0.1:${port}`;
  await apply(() => gateway.write(file({ listen: `, "${on}"`, clusters: cluster('kept') })));
  assert.ok((await status()).listeners.some(listener => listener.on === on && listener.address === on));
  const [client, served] = await tunnel('kept.test', {}, port);

  await apply(() => gateway.write(file({ clusters: cluster('kept') })));
  await until('nobody to listen', () => isClosed(port));
  client.send('still open');
  await served.receives('still open');
  client.finish();
  const { reason, listener } = await lineOf(gateway, client);
  assert.deepEqual([reason, listener], ['done', on]);
});

test('each port 0 is a separate listener with its own rules, and keeps its port through edits', async () => {
  const on = '127.0.0.1:0';
  const config = (...listen: readonly string[]) => `
listen: [${listen.join(', ')}]
clusters:
  - name: a
    api: { hosts: [api.a.test], backends: ["127.0.0.1:${backend.port}"] }
    konnectivity: { hosts: [konnectivity.a.test], backends: ["127.0.0.1:${backend.port}"] }`;
  const all = `"${on}"`;
  const narrow = `{ on: "${on}", only: [konnectivity] }`;
  await using other = await startCauseway({ config: config(all, narrow) });
  const [first, second] = other.ports;
  assert.notEqual(first, second);
  assert.equal(await servedBy(first, hello('api.a.test')), 'backend');
  assert.equal(await servedBy(second, hello('konnectivity.a.test')), 'backend');
  assert.deepEqual((await visit(second, hello('api.a.test'))).received, alert(112));

  const portsAfter = async (...listen: readonly string[]) => {
    const { generation } = await other.status();
    await other.write(config(...listen));
    await until('the edit', async () => (await other.status()).generation !== generation);
    const { listeners } = (await other.status()) as unknown as Status;
    return listeners.map(({ address }) => Number(address.split(':')[1]));
  };
  assert.deepEqual(await portsAfter(all), [first]);
  await until('nobody to listen', () => isClosed(second));
  const [same, third] = await portsAfter(all, narrow);
  assert.equal(same, first);
  assert.deepEqual((await visit(third, hello('api.a.test'))).received, alert(112));
  assert.equal(await servedBy(first, hello('api.a.test')), 'backend');
});

describe('an invalid file is refused as a whole, and the old table keeps serving', () => {
  test('with the position of every error', async () => {
    await apply(() => gateway.write(file({ clusters: cluster('before') })));
    const text = file({
      clusters: `${cluster('after')}  - { name: bad, apy: { hosts: [a.b.*] } }\n`,
      more: 'retries: many',
    });
    const error = await refuse(() => gateway.write(text));
    const lines = error.split('\n');
    assert.equal(lines.length, 2, error);
    assert.match(error, /^\S+causeway\.yaml:6:18: clusters\[2\]: unknown key "apy"; did you mean "api"\?$/m);
    assert.match(error, /^\S+causeway\.yaml:8:10: retries: /m);
    assert.equal(await servedBy(gateway.port, hello('before.test')), 'backend');
    await isUnknown('after.test');
    await apply(() => gateway.write(file({ clusters: cluster('after') })));
    assert.deepEqual((await status()).config, { ok: true, error: null, restartNeeded: [] });
    assert.equal(await servedBy(gateway.port, hello('after.test')), 'backend');
    await isUnknown('before.test');
  });

  test('when it is missing, until it is back', async () => {
    await apply(() => gateway.write(file({ clusters: cluster('before') })));
    assert.match(await refuse(() => rm(gateway.file)), /causeway\.yaml/);
    assert.equal(await servedBy(gateway.port, hello('before.test')), 'backend');
    await apply(() => gateway.write(file({ clusters: cluster('back') })));
    assert.equal(await servedBy(gateway.port, hello('back.test')), 'backend');
  });

  test('when its new listener cannot be opened', async () => {
    await apply(() => gateway.write(file({ clusters: cluster('before') })));
    const taken = createServer().unref();
    await new Promise<void>(resolve => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    const other = await freePort();
    const listen = `, "127.0.0.1:${other}", "127.0.0.1:${port}"`;
    // Clients keep connecting while the other listener is open but not yet served.
    const visitors: Peer[] = [];
    const visits = until('the end of the visits', async () => {
      await connectClient(other).then(
        visitor => visitors.push(visitor),
        () => {},
      );
      return !taken.listening;
    });
    const error = await refuse(() => gateway.write(file({ listen, clusters: cluster('never') })));
    const place = `^${gateway.file}:\\d+:\\d+: listen\\[2\\]: `;
    assert.match(
      error,
      new RegExp(`${place}Cannot listen on '127\\.0\\.0\\.1:${port}': address already in use`),
    );
    await isUnknown('never.test');
    assert.equal(await servedBy(gateway.port, hello('before.test')), 'backend');
    await until('the other new listener to be closed again', () => isClosed(other));
    taken.close();
    await visits;
    for (const visitor of visitors) visitor[Symbol.dispose]();
    await apply(() => gateway.write(file({ listen, clusters: cluster('at-last') })));
    assert.equal(await servedBy(port, hello('at-last.test')), 'backend');
    assert.equal(await servedBy(other, hello('at-last.test')), 'backend');
  });
});

if (supports('revoke'))
  describe('connections that are no longer allowed are revoked, and no others', () => {
    const near = { from: '127.0.0.2' };
    const far = { from: '127.0.0.3' };
    const open = new Map<string, [client: Peer, served: Peer]>();
    let hole: Awaited<ReturnType<typeof startBlackHole>>;
    let dialling: Peer;

    /** One edit for all of them. */
    before(async () => {
      hole = stack.use(await startBlackHole());
      const pool = `backends: ["${backend.text}"]`;
      const staying = cluster('staying');
      const clusters = `
${staying}${cluster('going')}
  - { name: dialled, api: { hosts: [dialled.test], backends: ["127.0.0.1:${hole.port}"] } }
  - { name: routes, routes: { stays: { hosts: [stays.test], ${pool} }, goes: { hosts: [goes.test], ${pool} } } }
  - { name: cluster-list, allow: [127.0.0.0/8], api: { hosts: [cluster-list.test], ${pool} } }
  - { name: route-list, api: { hosts: [route-list.test], ${pool}, allow: [127.0.0.0/8] } }
  - { name: changed, id: id-1, api: { hosts: [old.test], ${pool} } }
`;
      const edited = `
  - { name: routes, routes: { stays: { hosts: [stays.test], ${pool} } } }
  - { name: cluster-list, allow: [127.0.0.3/32], api: { hosts: [cluster-list.test], ${pool} } }
  - { name: route-list, api: { hosts: [route-list.test], ${pool}, allow: [127.0.0.3/32] } }
  - { name: changed, id: id-2, limits: { connections: 1 }, api: { hosts: [new.test], backends: ["${silent.text}"] } }
${cluster('coming')}${staying}
`;
      await apply(() => gateway.write(file({ clusters })));
      for (const name of ['staying', 'going', 'stays', 'goes', 'old'])
        open.set(name, await tunnel(`${name}.test`));
      for (const name of ['cluster-list', 'route-list']) {
        open.set(`${name} near`, await tunnel(`${name}.test`, near));
        open.set(`${name} far`, await tunnel(`${name}.test`, far));
      }
      dialling = stack.adopt(await connectClient(gateway.port), peer => peer[Symbol.dispose]());
      dialling.send(hello('dialled.test'));
      await until('the attempt', () => gateway.metric('causeway_connections_active', { cluster: 'dialled' }));
      await apply(() => gateway.write(file({ clusters: edited })));
    });

    for (const [given, name] of [
      ['a cluster that is gone', 'going'],
      ['a route that is gone, while its cluster stays', 'goes'],
      ["a client that the cluster's allow list no longer has", 'cluster-list near'],
      ["a client that the route's allow list no longer has", 'route-list near'],
    ] as const) {
      test(`${given} → RST to both`, async () => {
        const [client, served] = open.get(name) as [Peer, Peer];
        assert.deepEqual(await Promise.all([client.untilEnd(), served.untilEnd()]), ['RST', 'RST']);
        assert.equal((await lineOf(gateway, client)).reason, 'revoked');
      });
    }

    test('one whose backend is still being dialled → RST', async () => {
      assert.equal(await dialling.untilEnd(), 'RST');
      const { reason, cluster } = await lineOf(gateway, dialling);
      assert.deepEqual([reason, cluster], ['revoked', 'dialled']);
    });

    for (const [given, name, cluster] of [
      ['another cluster', 'staying', 'staying'],
      ['another route of that cluster', 'stays', 'routes'],
      ["a client that the cluster's allow list still has", 'cluster-list far', 'cluster-list'],
      ["a client that the route's allow list still has", 'route-list far', 'route-list'],
      ['one whose host, backend, id and limits changed', 'old', 'changed'],
    ] as const) {
      test(`${given} → continues`, async () => {
        const [client, served] = open.get(name) as [Peer, Peer];
        client.send('still open');
        await served.receives('still open');
        client.finish();
        served.finish();
        const line = await lineOf(gateway, client);
        assert.deepEqual([line.reason, line.cluster, line.backend], ['done', cluster, backend.text]);
      });
    }
  });

test('a change that needs a restart is reported, and the rest of the file is applied', async () => {
  const more = 'workers: 7\nadmin: { on: "127.0.0.1:0", hosts: [gateway.test] }\nstateDir: /nowhere';
  await apply(() => gateway.write(file({ clusters: cluster('meanwhile'), more })));
  const { config } = await status();
  assert.equal(config.ok, true);
  assert.deepEqual(config.restartNeeded.toSorted(), ['admin', 'stateDir', 'workers']);
  assert.equal(await servedBy(gateway.port, hello('meanwhile.test')), 'backend');
  await apply(() => gateway.write(file()));
  assert.deepEqual((await status()).config.restartNeeded, []);
});
