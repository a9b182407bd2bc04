// `causeway status`: its output, and its messages if there is none.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { ask, changing } from './ask-admin.ts';
import { Backend, connectClient, hello, servedBy, visit } from './given.ts';

let gateway: Causeway;
let dir: TempDir;
const stack = new AsyncDisposableStack();

before(async () => {
  dir = stack.use(await tempDir());
  const backend = stack.use(await Backend.start({ name: 'backend' }));
  gateway = stack.use(
    await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
workers: 1
clusters: [{ name: lab, api: { hosts: [api.lab.test], backends: ["${backend.text}"] } }]
`,
    }),
  );
  await writeFile(dir.file('password'), 'open sesame\n');
  await writeFile(dir.file('wrong'), 'open barley\n');
});

after(() => stack.disposeAsync());

async function status(...args: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const { code, stdout, stderr } = await run(causewayBin, ['status', ...args]);
  return { code, out: String(stdout), err: stderr };
}

test('shows what is served', async () => {
  await servedBy(gateway.port, hello('api.lab.test'));
  await visit(gateway.port, hello('unknown.test'));
  const { code, out, err } = await status('--admin', gateway.admin);
  assert.deepEqual([code, err], [0, '']);
  assert.match(out, /^causeway \d+\.\d+\.\d+ {2}(epoll|net|haproxy), 1 worker, up /);
  assert.match(out, new RegExp(`^listen +127\\.0\\.0\\.1:0 \\(127\\.0\\.0\\.1:${gateway.port}\\)$`, 'm'));
  assert.match(out, /^file +✓ valid and served, generation 1$/m);
  assert.match(out, /^traffic +0 open, 2 ended, in /m);
  assert.match(out, /^refused +unknown-host 1$/m);
  assert.match(out, /^lab +api +0 .* \? 127\.0\.0\.1:\d+$/m);
  assert.ok(!out.includes('\x1b'), 'no colours in a pipe');
});

test('shows that the gateway drains', async () => {
  await using backend = await Backend.start({ name: 'backend' });
  await using draining = await startCauseway({
    config: `
listen: ["127.0.0.1:0"]
workers: 1
clusters: [{ name: lab, api: { hosts: [api.lab.test], backends: ["${backend.text}"] } }]
`,
  });
  using client = await connectClient(draining.port);
  client.send(hello('api.lab.test'));
  await client.receives('backend\n');
  await ask(draining, '/api/v1/drain', { method: 'POST', headers: changing });
  const { code, out } = await status('--admin', draining.admin);
  assert.equal(code, 0);
  assert.match(out, /^ready +✗ draining$/m);
});

test('--json prints only the status', async () => {
  const { code, out } = await status('--admin', gateway.admin, '--json');
  assert.equal(code, 0);
  const reported = JSON.parse(out);
  const { uptimeSeconds: _, ...rest } = await gateway.status();
  const { uptimeSeconds, ...same } = reported;
  assert.ok(uptimeSeconds > 0);
  assert.deepEqual(same, rest);
});

describe('not reachable: exit 1 and a message with the fix', () => {
  test('nothing listens', async () => {
    const { code, out, err } = await status('--admin', `http://127.0.0.1:${await freePort()}`);
    assert.deepEqual([code, out], [1, '']);
    assert.match(
      err,
      /^causeway: Nothing listens on http:\/\/127\.0\.0\.1:\d+\. .*--admin URL for another address\n$/,
    );
  });

  test('the name does not resolve', async () => {
    const { code, err } = await status('--admin', 'http://nowhere.invalid:9440');
    assert.equal(code, 1);
    assert.match(err, /does not resolve|Cannot reach/);
  });

  for (const [what, code, body, reported] of [
    ['something else answers', 200, '<html>', /is not a Causeway admin API\n$/],
    [
      'it refuses, and its sentence is passed on',
      421,
      '{"error":"add it to\\u001b admin.hosts"}',
      /answered 421: add it to\\u001b admin\.hosts\n$/,
    ],
    ['it refuses without a sentence', 500, 'oops', /answered 500: is it a Causeway admin API\?\n$/],
  ] as const) {
    test(what, async () => {
      const other = createServer((_, response) => response.writeHead(code).end(body));
      other.listen(0, '127.0.0.1');
      await once(other, 'listening');
      const { port } = other.address() as AddressInfo;
      const answer = await status('--admin', `http://127.0.0.1:${port}`);
      other.close();
      assert.equal(answer.code, 1);
      assert.match(answer.err, reported);
    });
  }
});

describe('with admin authentication', () => {
  let guarded: Causeway;

  before(async () => {
    guarded = stack.use(
      await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
workers: 1
admin: { on: "127.0.0.1:0", auth: { username: vic, passwordFile: ${dir.file('password')}, role: viewer } }
`,
      }),
    );
  });

  test('without a user: exit 1, and how to give one', async () => {
    const { code, err } = await status('--admin', guarded.admin);
    assert.equal(code, 1);
    assert.match(err, /give --username and --password-file\n$/);
  });

  test('with the wrong password: exit 1', async () => {
    const { code, err } = await status(
      '--admin',
      guarded.admin,
      '--username',
      'vic',
      '--password-file',
      dir.file('wrong'),
    );
    assert.equal(code, 1);
    assert.match(err, /rejected that user name and password\n$/);
  });

  test('with the right one: a viewer suffices', async () => {
    const { code, out } = await status(
      '--admin',
      guarded.admin,
      '--username',
      'vic',
      '--password-file',
      dir.file('password'),
    );
    assert.equal(code, 0);
    assert.match(out, /^serves +0 clusters/m);
  });
});

describe('with TLS on the admin listener', { skip: missingPrograms('openssl') }, () => {
  let secure: Causeway;

  before(async () => {
    const { certFile, keyFile } = await certificateFor('127.0.0.1');
    await copyFile(certFile, dir.file('tls.crt'));
    await copyFile(keyFile, dir.file('tls.key'));
    secure = stack.use(
      await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
workers: 1
admin: { on: "127.0.0.1:0", tls: { certFile: ${dir.file('tls.crt')}, keyFile: ${dir.file('tls.key')} } }
`,
      }),
    );
  });

  test('--ca-file names its authority', async () => {
    const { certFile } = await authority();
    const { code, out, err } = await status('--admin', secure.admin, '--ca-file', certFile);
    assert.deepEqual([code, err], [0, '']);
    assert.match(out, /^causeway /);
  });

  test('without it: exit 1, and how to give it', async () => {
    const { code, err } = await status('--admin', secure.admin);
    assert.equal(code, 1);
    assert.match(err, /is not trusted \([^;]*\)\. Give its CA with --ca-file\n$/);
  });

  test('without it, if the machine trusts the authority', async () => {
    const { certFile } = await authority();
    const env = { SSL_CERT_FILE: certFile };
    const { code, stdout, stderr } = await run(causewayBin, ['status', '--admin', secure.admin], { env });
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(String(stdout), /^causeway /);
  });

  test('http: to https: exit 1, and a hint', async () => {
    const { code, err } = await status('--admin', secure.admin.replace('https', 'http'));
    assert.equal(code, 1);
    assert.match(err, /try --admin https:/);
  });

  test('https: to http: exit 1, and a hint', async () => {
    const { code, err } = await status('--admin', gateway.admin.replace('http', 'https'));
    assert.equal(code, 1);
    assert.match(err, /try --admin http:/);
  });
});

describe('selection', () => {
  let many: Causeway;
  before(async () => {
    const backend = stack.use(await Backend.start({ name: 'backend' }));
    many = stack.use(
      await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
workers: 1
clusters:
  - name: fine
    api: { hosts: [fine.test, also.fine.test], backends: ["${backend.text}"], health: { check: tcp, every: 1h } }
  - name: broken
    api: { hosts: [broken.test], backends: ["${backend.text}", "127.0.0.1:9"], health: { check: tcp, every: 1h } }
    apps: { hosts: [web.broken.test], http: redirect }
  - name: empty
    api: { hosts: [empty.test], backends: [] }
`,
      }),
    );
    await many.line(({ msg }) => msg === 'health');
    await servedBy(many.port, hello('fine.test'));
  });

  const rows = async (...args: string[]) => {
    const { code, out, err } = await status('--admin', many.admin, ...args);
    assert.deepEqual([code, err], [0, '']);
    const lines = out.split('\n');
    return lines.slice(lines.findIndex(line => line.startsWith('cluster ')) + 1).filter(line => line !== '');
  };
  const names = (lines: readonly string[]) =>
    lines.map(line => line.split(/\s+/, 1)[0]).filter(name => name !== '');

  test('--problems: only problems', async () => {
    const shown = await rows('--problems');
    assert.deepEqual(names(shown), ['broken', 'empty']);
    assert.match(shown[0], /^broken +api .* ✗ 127\.0\.0\.1:9 connection refused/);
    assert.equal(shown.length, 2, 'the redirect is fine');
  });

  test('--problems: a message if there are none', async () => {
    const { out } = await status('--admin', many.admin, '--problems', '--cluster', 'fine');
    assert.match(out, /^problems +none$/m);
  });

  test('--cluster: everything about one', async () => {
    const shown = await rows('--cluster', 'fine');
    assert.deepEqual(names(shown), ['fine', 'route', 'api', 'api']);
    assert.equal(shown.at(-1), 'api    also.fine.test');
    const { code, err } = await status('--admin', many.admin, '--cluster', 'brokn');
    assert.equal(code, 1);
    assert.equal(err, "causeway: Unknown cluster 'brokn'. Did you mean 'broken'?\n");
  });

  test('--sort: the order', async () => {
    assert.deepEqual(names(await rows()), ['fine', 'broken', 'empty']);
    assert.deepEqual(names(await rows('--sort', 'name')), ['broken', 'empty', 'fine']);
    assert.deepEqual(names(await rows('--sort', 'down')), ['broken', 'empty', 'fine']);
    assert.deepEqual(names(await rows('--sort', 'out')), ['fine', 'broken', 'empty']);
  });

  test('--json: the selected clusters', async () => {
    const json = async (...args: string[]) =>
      JSON.parse((await status('--admin', many.admin, '--json', ...args)).out);
    const named = async (...args: string[]) =>
      (await json(...args)).map(({ name }: { name: string }) => name);
    assert.equal((await json()).counts.clusters, 3);
    assert.deepEqual(await named('--problems', '--sort', 'name'), ['broken', 'empty']);
    assert.deepEqual(await named('--cluster', 'fine'), ['fine']);
  });
});

describe('wrong usage: exit 64', { concurrency: true }, () => {
  for (const args of [
    ['--admin', 'nonsense'],
    ['--admin', 'ftp://127.0.0.1'],
    ['--admin', 'http://user:secret@127.0.0.1'],
    ['--username', 'vic'],
    ['--password-file', '/dev/null'],
    ['--username', 'vic', '--password-file', '/nowhere/at/all'],
    ['--ca-file', '/nowhere/at/all'],
    ['--ca-file', '/dev/null'],
    ['--nonsense'],
    ['--sort', 'nonsense'],
    ['surplus'],
  ]) {
    test(args.join(' '), async () => {
      const { code, out, err } = await status(...args);
      assert.equal(code, 64);
      assert.equal(out, '');
      assert.match(err, /^causeway: [^\n]+\n$/);
      assert.ok(!err.includes('secret'));
    });
  }
});
