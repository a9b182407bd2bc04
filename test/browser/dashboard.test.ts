// The dashboard in a real browser, against a stand-in gateway that answers as each test wants, and against the real one.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import type { BackendAnswer, ClusterAnswer } from '../../src/admin/clusters.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { manyClusters, sampleClusters, sampleStatus } from './gateway.samples.ts';
import { openBrowser } from './open-browser.ts';
import { StandInGateway } from './stand-in-gateway.ts';

/** Each wait takes a moment; on a busy machine, longer. */
const WAIT_MS = 60_000;
/** Set by any injected script that runs. */
const SCRIPT_RAN = 'globalThis.ran === true';
/** Except line ends and tabs, with which the browser lays out a table as text. */
const CONTROLS = /(?![\n\t])[\p{Cc}\p{Bidi_Control}\u2028\u2029\ufeff]/gu;

describe('the dashboard', { skip: missingPrograms('chromium') }, () => {
  let browser: Browser;
  let gateway: StandInGateway;
  let opened: Visit[];

  before(async () => {
    browser = await openBrowser();
  });
  after(() => browser?.close());

  beforeEach(async () => {
    gateway = await StandInGateway.start();
    opened = [];
  });
  afterEach(async () => {
    for (const { page } of opened) await page.context().close();
    await gateway[Symbol.asyncDispose]();
  });

  async function visit(
    options: BrowserContextOptions = {},
    url = gateway.url,
    prepare?: Prepare,
  ): Promise<Visit> {
    const visited = await openPage(browser, url, options, prepare);
    opened.push(visited);
    return visited;
  }

  test('shows clusters, routes, backends and the state of the gateway, without an error', async () => {
    const { page, faults } = await visit();
    const table = page.getByRole('table', { name: 'Clusters, their routes and backends' });
    for (const text of ['blue', 'api.blue.example.com', '10.10.1.12:8132', 'apps-https', '10.10.3.20:80'])
      await shown(table.getByText(text, { exact: true }).first());
    const masthead = page.getByRole('banner');
    for (const text of ['[::]:6443, [::]:443', '0.1.0 · epoll × 4', '3 d 4 h', '17', '✓ served', 'live'])
      await shown(masthead.getByText(text, { exact: true }));
    await shown(page.getByText("Host 'shop.example.com' belongs to cluster 'blue'"));
    await shown(page.getByRole('row', { name: 'The client reset the connection' }).getByText('9,120'));
    assert.deepEqual(faults, []);
  });

  test('shows a backend that is down by a word and a shape, and one of several as a warning', async () => {
    const { page } = await visit();
    const row = page.getByRole('row', { name: '10.10.2.12:6443' });
    await shown(row.getByText('▲down', { exact: true }));
    await shown(row.locator('.state.warning'));
    await shown(page.getByRole('row', { name: '10.10.2.11:6443' }).getByText('●up', { exact: true }));
    await shown(page.getByRole('button', { name: '1 of 15 backends down' }));
    assert.equal(await page.locator('.state.down, .outage').count(), 0);
    assert.deepEqual(await clusterNames(page), ['blue', 'green', 'red', 'No cluster']);
    await until(async () => (await page.title()) === '1 down · Causeway');
  });

  test('shows a lone backend that is down as an outage, in red and on top', async () => {
    gateway.clusters = withBackends('red', backend =>
      backend.address === '10.10.3.20:80' ? { ...backend, up: false } : backend,
    );
    const { page } = await visit();
    await until(async () => (await clusterNames(page)).join() === 'red,blue,green,No cluster');
    const row = page.locator('.cluster.outage').getByRole('row', { name: 'red' }).first();
    await shown(row.locator('.state.down').getByText('1 of 3 down'));
    await shown(row.getByText('outage: apps-http', { exact: true }));
    await shown(page.getByRole('button', { name: '1 cluster with an outage' }));
    await until(async () => (await page.title()) === '1 outage · Causeway');
  });

  test('shows health that is not known as ?, neither up nor down, and as no problem', async () => {
    gateway.clusters = withBackends('blue', backend => ({ ...backend, up: null }));
    const { page } = await visit();
    const row = page.getByRole('row', { name: '10.10.1.11:6443' });
    await shown(row.getByText('?unknown', { exact: true }));
    await shown(page.locator('.cluster-row', { hasText: 'blue' }).getByText('?7 unknown', { exact: true }));
    await shown(page.getByRole('checkbox', { name: 'Problems (2)' }));
    gateway.clusters = [gateway.clusters[0]];
    await shown(page.locator('.tile.health').getByText('?7 backends unknown', { exact: true }));
    assert.equal(await page.title(), 'Causeway');
  });

  test('draws the health bar once, on its own box', async () => {
    const { page } = await visit();
    const bar = page.locator('.tile.health .bar');
    await shown(bar);
    assert.equal(await page.locator('meter').count(), 0);
    const [outer, inner] = [await bar.boundingBox(), await bar.locator('.fill').boundingBox()];
    assert.deepEqual([inner?.x, inner?.y, inner?.height], [outer?.x, outer?.y, outer?.height]);
    const share = (inner?.width ?? 0) / (outer?.width ?? 1);
    assert.ok(Math.abs(share - 14 / 15) < 0.01, `${share}`);
  });

  test('shows counters of the last 5 minutes beside those since the start, and names both', async () => {
    const { page } = await visit();
    for (const name of ['Connections', 'In', 'Out', 'Refused', 'Failed'])
      await shown(page.getByRole('columnheader', { name: `${name} last 5 min since start` }));
    const green = page.locator('.cluster-row', { hasText: 'green' });
    await until(async () => (await lines(green, 'Failed')).join() === '4,311');
    assert.deepEqual(await lines(green, 'Refused'), ['0', '118']);
    assert.deepEqual(await lines(green, 'Connections'), ['200', '44,205']);
    await shown(page.getByText('connect-failed 4 in 5 min, 311 since start', { exact: true }));
    await shown(page.getByText('not-allowed 118 since start', { exact: true }));
    const reasons = page.getByRole('table', { name: 'Connections that ended, by reason' });
    await shown(reasons.getByRole('row', { name: 'Reason last 5 min since start' }));
    assert.deepEqual(
      await reasons
        .getByRole('row', { name: 'No backend could be reached' })
        .getByRole('cell')
        .allInnerTexts(),
      ['4', '311'],
    );
    const tile = page.locator('.tile', { hasText: 'Refused or failed' });
    for (const text of ['13 in the last 5 min', '1,882 since start'])
      await shown(tile.getByText(text, { exact: true }));
  });

  test('has a row for connections that belong to no cluster, with their reasons', async () => {
    const { page } = await visit();
    const row = page.locator('.unrouted .cluster-row');
    await until(async () => (await lines(row, 'Connections')).join() === '21,3,626');
    assert.deepEqual(await lines(row, 'Refused'), ['9', '1,416']);
    await row.getByRole('button', { name: 'No cluster' }).click();
    await shown(
      page.locator('.unrouted').getByText('unknown-host 9 in 5 min, 904 since start', { exact: true }),
    );
    await page.getByRole('searchbox').fill('no-sni');
    await until(async () => (await clusterNames(page)).join() === 'No cluster');
    await page.getByRole('searchbox').fill('blue');
    await until(async () => (await clusterNames(page)).join() === 'blue');
  });

  test('says in words why a dial failed', async () => {
    const { page } = await visit();
    await until(() => gateway.listeners === 1);
    const errors = {
      refused: 'No backend could be reached: connection refused',
      unreachable: 'No backend could be reached: no route to the backend',
      'name-not-found': 'No backend could be reached: its name does not resolve',
    };
    for (const error of Object.keys(errors))
      gateway.emit('refusal', {
        reason: 'connect-failed',
        error,
        host: 'a.test',
        client: null,
        cluster: null,
      });
    const list = page.getByRole('list', { name: 'Refused connections' });
    for (const text of Object.values(errors)) await shown(list.getByText(text, { exact: true }));
  });

  test('keeps filter, order and open rows in the URL: for a reload, for others, and for Back', async () => {
    gateway.clusters = manyClusters(40);
    const { page } = await visit();
    const filter = page.getByRole('searchbox');
    await shown(page.getByRole('button', { name: 'tenant-003' }));
    await page.getByRole('columnheader', { name: 'Open' }).getByRole('button').click();
    await filter.pressSequentially('tenant-00');
    await page.getByRole('button', { name: 'tenant-003' }).click();
    const hash = () => new URL(page.url()).hash;
    await until(() => hash() === '#filter=tenant-00&sort=open&open=tenant-003');
    const names = await clusterNames(page);
    assert.equal(names.length, 9);

    const look = async (other: Page) => {
      await until(async () => (await clusterNames(other)).join() === names.join());
      assert.equal(await other.getByRole('searchbox').inputValue(), 'tenant-00');
      await shown(other.getByText('konnectivity.tenant-003.example.com'));
      assert.equal(
        await other.locator('th[aria-sort="descending"]').getByRole('button').innerText(),
        'Open↓',
      );
    };
    await page.reload();
    await look(page);
    await look((await visit({}, page.url())).page);

    await page.goBack();
    await until(async () => (await filter.inputValue()) === '' && hash() === '#sort=open');
    await page.goBack();
    await until(async () => (await page.locator('th[aria-sort="ascending"]').count()) === 1 && hash() === '');
    await page.goForward();
    await until(async () => (await page.locator('th[aria-sort="descending"]').count()) === 1);
  });

  test('keeps "Open all" and the open connections in the URL', async () => {
    gateway.clusters = manyClusters(40);
    const { page } = await visit({}, `${gateway.url}#rows=open&connections=blue&sort=nonsense`);
    await shown(page.getByText('konnectivity.tenant-003.example.com'));
    await shown(page.getByRole('table', { name: 'Open connections' }).getByText('198.51.100.20:50123'));
    await page.getByRole('button', { name: 'Close all' }).click();
    await until(() => new URL(page.url()).hash === '#rows=closed&connections=blue');
    await page.getByRole('button', { name: /^Open connections/ }).click();
    await until(() => new URL(page.url()).hash === '#rows=closed');
    await page.goBack();
    await shown(page.getByRole('table', { name: 'Open connections' }));
  });

  for (const width of [375, 1440]) {
    test(`breaks no address in two, ${width} pixels wide`, async () => {
      const long = '[2001:db8:1234:5678:9abc:def0:1234:5678]:64430';
      gateway.clusters = withBackends('blue', backend => ({ ...backend, address: long }));
      gateway.connections = gateway.connections.map(connection => ({
        ...connection,
        client: long,
        backend: long,
      }));
      const { page } = await visit(
        { viewport: { width, height: 800 } },
        `${gateway.url}#rows=open&connections=`,
      );
      await until(() => gateway.listeners === 1);
      gateway.emit('refusal', { reason: 'no-sni', host: null, client: long, cluster: null });
      gateway.emit('health', { cluster: 'blue', route: 'api', backend: long, up: false, why: 'timeout' });
      for (const list of ['.backend-row', '.connections', '.refusals', '.changes'])
        await shown(page.locator(`${list} .address`).first());
      const heights = await page
        .locator('.address')
        .evaluateAll(found => found.map(address => address.getClientRects()[0].height));
      assert.ok(heights.length > 20, `${heights.length} addresses`);
      for (const height of heights) assert.ok(height < 25, `an address is ${height} pixels high`);
      assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true);
    });
  }

  test('shows a refusal within a second, in words', async () => {
    const { page, faults } = await visit();
    await until(() => gateway.listeners === 1);
    const list = page.getByRole('list', { name: 'Refused connections' });
    const refusal = { reason: 'not-allowed', client: '203.0.113.9:60123', cluster: 'green' };
    // The best of three, as the machine may be busy with something else.
    const times: number[] = [];
    for (const host of ['api.green.example.com', 'b.green.example.com', 'c.green.example.com']) {
      const sent = performance.now();
      gateway.emit('refusal', { ...refusal, host });
      await shown(list.getByText(host, { exact: true }));
      times.push(performance.now() - sent);
    }
    assert.ok(Math.min(...times) < 1000, `it took ${times.map(Math.round).join(', ')} ms`);
    const first = list.getByRole('listitem').filter({ hasText: 'api.green.example.com' });
    for (const text of ['The allow list does not admit this client', '203.0.113.9', 'green', 'not-allowed'])
      await shown(first.getByText(text, { exact: true }));
    assert.deepEqual(faults, []);
  });

  test('shows a host name that is markup as text, and runs nothing', async () => {
    const { page, faults } = await visit();
    await until(() => gateway.listeners === 1);
    const hosts = [
      '<img src=x onerror="globalThis.ran=true">',
      '<script>globalThis.ran=true</script>',
      '"><svg onload=globalThis.ran=true>',
      '\u202emoc.elpmaxe',
      'a\u0000b\u001b[2Jc\u007fd\u009be\u2028f\u2029g\u2066h\ufeffi',
    ];
    for (const host of hosts)
      gateway.emit('refusal', { reason: 'unknown-host', host, client: '192.0.2.1:1', cluster: null });
    gateway.connections = hosts.map((host, index) => ({
      ...gateway.connections[0],
      id: String(index),
      host,
    }));
    await page.getByRole('button', { name: /^Open connections/ }).click();
    for (const sent of hosts) {
      const host = escaped(sent);
      await shown(page.getByRole('list', { name: 'Refused connections' }).getByText(host, { exact: true }));
      await shown(page.getByRole('table', { name: 'Open connections' }).getByText(host, { exact: true }));
    }
    assert.equal(
      await page.locator('#page img:not([src="dashboard/mark.svg"]), #page script, #page svg').count(),
      0,
    );
    assert.doesNotMatch(await page.locator('body').innerText(), CONTROLS);
    assert.equal(await page.evaluate(SCRIPT_RAN), false);
    assert.deepEqual(faults, []);
  });

  test('lets no string become markup or a script, whatever a later change of the page does', async () => {
    const { page } = await visit();
    const script =
      "Object.assign(document.createElement('script'), { textContent: 'globalThis.ran = true' })";
    const attempts: [string, RegExp][] = [
      ["document.body.innerHTML = '<img src=x onerror=globalThis.ran=true>'", /TrustedHTML/],
      [`document.body.append(${script})`, /TrustedScript/],
    ];
    for (const [attempt, refused] of attempts) await assert.rejects(page.evaluate(attempt), refused, attempt);
    assert.equal(await page.evaluate(SCRIPT_RAN), false);
  });

  test('shows a refused file, a restart that is needed and a drain until they are over', async () => {
    const { page } = await visit();
    const error =
      "causeway.yaml:12:5: clusters[0].api.hosts[0]: 'a_b' is not a host name\ncauseway.yaml:20:3: second";
    gateway.status = sampleStatus({ config: { ok: false, error, restartNeeded: ['engine'] } });
    gateway.notReady = 'draining';
    for (const text of [
      'The config file was refused',
      'clusters[0].api.hosts[0]',
      'causeway.yaml:20:3: second',
      'A restart is needed',
      'The gateway is draining',
    ])
      await shown(page.locator('.banner').getByText(text));
    gateway.status = sampleStatus();
    gateway.notReady = undefined;
    await until(async () => (await page.locator('.banner').count()) === 0);
  });

  test('says that the gateway cannot be reached, and recovers when it is back', async () => {
    const { page } = await visit();
    await shown(page.getByText('live', { exact: true }));
    await gateway.hangUp();
    await shown(page.locator('.banner').getByText(/^The gateway cannot be reached since \d\d:\d\d:\d\d$/));
    await shown(page.getByRole('banner').getByText('unreachable', { exact: true }));
    await shown(page.getByText('blue', { exact: true }).first());
    gateway.clusters = [{ ...sampleClusters()[0], name: 'indigo' }];
    await gateway.listen();
    await shown(page.getByText('indigo', { exact: true }).first());
    await until(async () => (await page.locator('.banner').count()) === 0);
    await until(() => gateway.listeners === 1);
    await shown(page.getByText('live', { exact: true }));
  });

  test('follows a change of health at once, and lists it', async () => {
    const { page } = await visit();
    await until(() => gateway.listeners === 1);
    gateway.clusters = sampleClusters().map(cluster => ({
      ...cluster,
      routes: cluster.routes.map(route => ({
        ...route,
        backends: route.backends.map(backend =>
          backend.address === '10.10.3.20:80'
            ? { ...backend, up: false, since: new Date().toISOString(), why: 'connection refused' }
            : backend,
        ),
      })),
    }));
    gateway.emit('health', {
      cluster: 'red',
      route: 'apps-http',
      backend: '10.10.3.20:80',
      up: false,
      why: 'connection refused',
    });
    gateway.emit('table', { generation: 18, clusters: 3, routes: 9, hosts: 12, ok: true, error: null });
    const changes = page.getByRole('list', { name: 'Changes' });
    for (const text of ['connection refused', 'Generation 18 is served'])
      await shown(changes.getByText(text));
    const row = page.getByRole('row', { name: '10.10.3.20:80' });
    await shown(row.getByText('▲down'));
    await shown(row.getByText(/^since \d\d:\d\d:\d\d: connection refused$/));
  });

  test('computes rates from one answer to the next', async () => {
    const { page } = await visit();
    await shown(page.getByText('blue', { exact: true }).first());
    const grow = setInterval(() => {
      const { traffic } = gateway.status;
      gateway.status = {
        ...gateway.status,
        traffic: { ...traffic, connections: traffic.connections + 50, bytesOut: traffic.bytesOut + 1e6 },
      };
    }, 100);
    try {
      const figure = page.locator('.tile', { hasText: 'New connections' }).locator('.figure');
      await until(async () => Number.parseInt(await figure.innerText(), 10) > 50);
      await shown(page.locator('.tile', { hasText: 'Bytes' }).getByText(/\d MiB\/s/));
    } finally {
      clearInterval(grow);
    }
  });

  test('filters by any word of a cluster, and by problems, from the keyboard too', async () => {
    gateway.clusters = manyClusters(300);
    const { page } = await visit();
    const names = page.locator('.cluster-row .text');
    await until(async () => (await names.count()) === 301);
    await page.keyboard.press('/');
    await page.keyboard.type('10.20.41.12');
    await until(async () => (await names.allInnerTexts()).join() === 'tenant-042');
    await shown(page.getByText('api.tenant-042.example.com', { exact: true }));
    await page.keyboard.press('Escape');
    await page.getByRole('checkbox', { name: 'Problems (13)' }).check();
    await until(async () => (await names.count()) === 13);
    await page.getByRole('searchbox').fill('nothing has this name');
    await shown(page.getByText('No cluster matches'));
  });

  test('opens and closes a cluster, and sorts by a column', async () => {
    gateway.clusters = manyClusters(40);
    const { page } = await visit();
    const cluster = page.getByRole('button', { name: 'tenant-003' });
    assert.equal(await cluster.getAttribute('aria-expanded'), 'false');
    await cluster.focus();
    await page.keyboard.press('Enter');
    assert.equal(await cluster.getAttribute('aria-expanded'), 'true');
    await shown(page.getByText('konnectivity.tenant-003.example.com'));
    await page.getByRole('columnheader', { name: 'Open' }).getByRole('button').click();
    await until(async () => {
      const open = await page.locator('.cluster-row [data-line="now"]').allInnerTexts();
      const sorted = open.map(Number).toSorted((a, b) => b - a);
      return open.length === 40 && open.join() === sorted.join();
    });
    assert.equal(await page.locator('th[aria-sort="descending"]').getByRole('button').innerText(), 'Open↓');
  });

  test('fetches open connections only while they are shown, and ends one after a confirmation', async () => {
    const { page, faults } = await visit();
    await shown(page.getByText('blue', { exact: true }).first());
    assert.equal(
      gateway.requests.some(path => path.startsWith('/api/v1/connections')),
      false,
    );
    await page.getByRole('button', { name: '113', exact: true }).click();
    const table = page.getByRole('table', { name: 'Open connections' });
    await shown(table.getByText('198.51.100.21:51123'));
    assert.ok(gateway.requests.includes('/api/v1/connections?limit=100&cluster=green'));
    const end = table.getByRole('button', { name: 'End the connection of 198.51.100.21:51123' });
    await end.click();
    await page.getByRole('dialog').getByRole('button', { name: 'Keep it' }).click();
    await until(async () => (await page.getByRole('dialog').count()) === 0);
    assert.deepEqual(gateway.ended, []);
    await end.click();
    await page.getByRole('dialog').getByRole('button', { name: 'End it' }).click();
    await until(async () => (await end.count()) === 0);
    assert.deepEqual(gateway.ended, [{ id: '0-41-3', type: 'application/json' }]);
    assert.deepEqual(faults, []);
  });

  test('tells a viewer that ending a connection takes another role', async () => {
    gateway.endsWith = 403;
    const { page } = await visit();
    await page.getByRole('button', { name: /^Open connections/ }).click();
    await page
      .getByRole('button', { name: /^End the connection/ })
      .first()
      .click();
    await page.getByRole('button', { name: 'End it' }).click();
    await shown(page.getByRole('alert').getByText('that takes role admin'));
  });

  test('pauses while it is hidden', async () => {
    const { page } = await visit({}, gateway.url, page => page.clock.install());
    await until(() => gateway.listeners === 1);
    await hide(page, true);
    await until(() => gateway.listeners === 0);
    // Requests under way are answered first.
    await page.waitForLoadState('networkidle');
    const before = gateway.requests.length;
    await page.clock.runFor(60_000);
    assert.equal(gateway.requests.length, before);
    await hide(page, false);
    await until(() => gateway.listeners === 1 && gateway.requests.length > before);
  });

  test('is dark and light as the system is', async () => {
    const { page } = await visit({ colorScheme: 'light' });
    const ground = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    const light = await ground();
    await page.emulateMedia({ colorScheme: 'dark' });
    const dark = await ground();
    assert.ok(brightness(light) > 220 && brightness(dark) < 40, `${light} and ${dark}`);
  });

  for (const scheme of ['light', 'dark'] as const) {
    test(`fits a phone, ${scheme}, with everything open`, async () => {
      gateway.clusters = [...sampleClusters(), ...manyClusters(20)];
      gateway.status = sampleStatus({
        config: { ok: false, error: `causeway.yaml:1:1: ${'x'.repeat(300)}`, restartNeeded: [] },
      });
      const { page, faults } = await visit({ viewport: { width: 375, height: 800 }, colorScheme: scheme });
      await until(() => gateway.listeners === 1);
      gateway.emit('refusal', {
        reason: 'unknown-host',
        host: `${'long-'.repeat(40)}.test`,
        client: '192.0.2.1:1',
        cluster: null,
      });
      await page.getByRole('button', { name: 'Open all' }).click();
      await page.getByRole('button', { name: /^Open connections/ }).click();
      await shown(page.getByText('198.51.100.21:51123'));
      await shown(page.getByText(/long-long/));
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 375);
      assert.deepEqual(faults, []);
    });
  }

  test('works with the real gateway', async () => {
    await using causeway = await startCauseway({
      config: `listen: ["127.0.0.1:0"]
clusters: [{ name: lab, api: { hosts: [api.lab.test], backends: ["127.0.0.1:9"] } }]
`,
    });
    const { page, faults } = await visit({}, `${causeway.admin}/`);
    await shown(page.getByRole('banner').getByText(`127.0.0.1:${causeway.port}`));
    await shown(page.locator('.tile.health').getByText('1 route, 1 host'));
    assert.deepEqual(faults, []);
    const { title, text } = { title: await page.title(), text: await page.locator('main').innerText() };
    assert.doesNotMatch(`${title} ${text}`, /NaN|undefined|null|\[object/);
  });

  test('is behind the login of the admin side, all of it', async () => {
    await using dir = await tempDir();
    await writeFile(dir.file('password'), 'open sesame\n');
    await using causeway = await startCauseway({
      config: `listen: ["127.0.0.1:0"]
admin: { on: "127.0.0.1:0", auth: { username: admin, passwordFile: ${dir.file('password')} } }
clusters: []
`,
    });
    for (const path of ['/', '/dashboard/main.js', '/dashboard/dashboard.css'])
      assert.equal((await fetch(new URL(path, causeway.admin))).status, 401, path);
    const httpCredentials = { username: 'admin', password: 'open sesame' };
    const { page, faults } = await visit({ httpCredentials }, `${causeway.admin}/`);
    await shown(page.locator('.tile.health').getByText('0 routes, 0 hosts'));
    assert.deepEqual(
      faults.filter(fault => !/status of 40[14] /.test(fault)),
      [],
    );
  });
});

interface Visit {
  readonly page: Page;
  /** Errors, violations of the content policy, and requests to other hosts. */
  readonly faults: readonly string[];
}

type Prepare = (page: Page) => Promise<void>;

async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions,
  prepare?: Prepare,
): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('console', message => {
    if (message.type() === 'error' || message.type() === 'warning')
      faults.push(`${message.text()} ${message.location().url}`);
  });
  page.on('pageerror', error => faults.push(String(error)));
  page.on('request', request => {
    if (new URL(request.url()).origin !== new URL(url).origin) faults.push(`requested ${request.url()}`);
  });
  page.on('response', answer => {
    if (answer.status() >= 400 && !answer.url().includes('/api/'))
      faults.push(`${answer.status()} ${answer.url()}`);
  });
  await page.addInitScript(
    "document.addEventListener('securitypolicyviolation', event => console.error(`violates ${event.violatedDirective}`))",
  );
  await prepare?.(page);
  await page.goto(url);
  return { page, faults };
}

/** The sample clusters, with the backends of one of them changed. */
function withBackends(name: string, change: (backend: BackendAnswer) => BackendAnswer): ClusterAnswer[] {
  return sampleClusters().map(cluster =>
    cluster.name === name
      ? {
          ...cluster,
          routes: cluster.routes.map(route => ({ ...route, backends: route.backends.map(change) })),
        }
      : cluster,
  );
}

/** From top to bottom, as the page shows them. */
function clusterNames(page: Page): Promise<string[]> {
  return page.locator('.cluster-row .text').allInnerTexts();
}

/** The two lines of a cell. */
function lines(row: Locator, label: string): Promise<string[]> {
  return row.locator(`[data-label="${label}"] .line`).allInnerTexts();
}

/** As the page shows a control character. */
function escaped(text: string): string {
  return text.replaceAll(CONTROLS, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function shown(locator: Locator): Promise<void> {
  return locator.waitFor({ state: 'visible' });
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, `not within ${WAIT_MS} ms: ${holds}`);
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}

/** As if another tab were in front: a headless browser never hides a page. */
async function hide(page: Page, hidden: boolean): Promise<void> {
  await page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true })`);
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
}

/** The mean of the three channels of `rgb(r, g, b)`. */
function brightness(colour: string): number {
  const parts = [...colour.matchAll(/\d+/g)].map(Number);
  return (parts[0] + parts[1] + parts[2]) / 3;
}
