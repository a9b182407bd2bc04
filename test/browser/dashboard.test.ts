// The dashboard in a real browser, before a stand-in gateway that says what each test wants, and before the real one.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { missingPrograms } from '../../testbed/packages.ts';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { manyClusters, sampleClusters, sampleStatus } from './gateway.samples.ts';
import { openBrowser } from './open-browser.ts';
import { StandInGateway } from './stand-in-gateway.ts';

/** What is waited for takes a moment; on a machine that is busy with everything else, longer. */
const PATIENCE_MS = 60_000;
/** Set by whatever would run in the page without being ours. */
const RAN = 'globalThis.ran === true';

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

  test('tells a backend that is down by a word and a shape, not by colour alone', async () => {
    const { page } = await visit();
    await shown(page.getByRole('row', { name: '10.10.2.12:6443' }).getByText('▲down', { exact: true }));
    await shown(page.getByRole('row', { name: '10.10.2.11:6443' }).getByText('●up', { exact: true }));
    await shown(page.getByRole('button', { name: '1 of 15 backends down' }));
    await until(async () => (await page.title()) === '1 down · Causeway');
  });

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
      const host = sent.replace('\u202e', '\\u202e');
      await shown(page.getByRole('list', { name: 'Refused connections' }).getByText(host, { exact: true }));
      await shown(page.getByRole('table', { name: 'Open connections' }).getByText(host, { exact: true }));
    }
    assert.equal(
      await page.locator('#page img:not([src="dashboard/mark.svg"]), #page script, #page svg').count(),
      0,
    );
    assert.equal(await page.evaluate(RAN), false);
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
    assert.equal(await page.evaluate(RAN), false);
  });

  test('shows a refused file, a restart that is needed and a drain until they are over', async () => {
    const { page } = await visit();
    const error =
      "causeway.yaml:12:5: clusters[0].api.hosts[0]: 'a_b' is not a host name\ncauseway.yaml:20:3: second";
    gateway.status = sampleStatus({ config: { ok: false, error, restartNeeded: ['engine'] } });
    gateway.notReady = 'draining';
    for (const text of [
      'The file was refused',
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

  test('says that contact is lost, and goes on by itself when it is back', async () => {
    const { page } = await visit();
    await shown(page.getByText('live', { exact: true }));
    await gateway.hangUp();
    await shown(page.locator('.banner').getByText(/^No contact with the gateway since \d\d:\d\d:\d\d$/));
    await shown(page.getByRole('banner').getByText('no contact'));
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

  test('counts rates from one answer to the next', async () => {
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
    await until(async () => (await names.count()) === 300);
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
      const open = await page.locator('.cluster-row td:nth-child(3)').allInnerTexts();
      const sorted = open.map(Number).toSorted((a, b) => b - a);
      return open.length === 40 && open.join() === sorted.join();
    });
    assert.equal(await page.locator('th[aria-sort="descending"]').innerText(), 'Open↓');
  });

  test('asks for open connections only while they are shown, and ends one after a question', async () => {
    const { page, faults } = await visit();
    await shown(page.getByText('blue', { exact: true }).first());
    assert.equal(
      gateway.asked.some(path => path.startsWith('/api/v1/connections')),
      false,
    );
    await page.getByRole('button', { name: '113', exact: true }).click();
    const table = page.getByRole('table', { name: 'Open connections' });
    await shown(table.getByText('198.51.100.21:51123'));
    assert.ok(gateway.asked.includes('/api/v1/connections?limit=100&cluster=green'));
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

  test('tells a viewer that ending takes another role', async () => {
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

  test('rests while it is hidden', async () => {
    const { page } = await visit({}, gateway.url, page => page.clock.install());
    await until(() => gateway.listeners === 1);
    await hide(page, true);
    await until(() => gateway.listeners === 0);
    // What was under way is answered first.
    await page.waitForLoadState('networkidle');
    const before = gateway.asked.length;
    await page.clock.runFor(60_000);
    assert.equal(gateway.asked.length, before);
    await hide(page, false);
    await until(() => gateway.listeners === 1 && gateway.asked.length > before);
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

  test('works before the real gateway, with whatever that tells', async () => {
    await using causeway = await startCauseway({
      config: `listen: ["127.0.0.1:0"]
clusters: [{ name: lab, api: { hosts: [api.lab.test], backends: ["127.0.0.1:9"] } }]
`,
    });
    const { page, faults } = await visit({}, `${causeway.admin}/`);
    await shown(page.getByRole('banner').getByText(`127.0.0.1:${causeway.port}`));
    await shown(page.locator('.tile.health').getByText('1 route, 1 host'));
    // The browser itself reports an endpoint that this version does not have.
    assert.deepEqual(
      faults.filter(fault => !/status of 404 .*\/api\/v1\//.test(fault)),
      [],
    );
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
  /** Errors, violations of the page's policy, and requests to anyone else; none are wanted. */
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
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('console', message => {
    if (message.type() === 'error' || message.type() === 'warning')
      faults.push(`${message.text()} ${message.location().url}`);
  });
  page.on('pageerror', error => faults.push(String(error)));
  page.on('request', request => {
    if (new URL(request.url()).origin !== new URL(url).origin) faults.push(`asked ${request.url()}`);
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

function shown(locator: Locator): Promise<void> {
  return locator.waitFor({ state: 'visible' });
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, `not within ${PATIENCE_MS} ms: ${holds}`);
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}

/** As when another tab is looked at; a browser without windows never hides a page by itself. */
async function hide(page: Page, hidden: boolean): Promise<void> {
  await page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true })`);
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
}

/** Of `rgb(r, g, b)`: the mean. */
function brightness(colour: string): number {
  const parts = [...colour.matchAll(/\d+/g)].map(Number);
  return (parts[0] + parts[1] + parts[2]) / 3;
}
