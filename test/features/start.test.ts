// The command line: exit codes, one message per error, and the stream it goes to. Only output that is meant to
// be piped goes to stdout; nothing ever prints a stack trace.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { run } from '../../testbed/run.ts';
import { causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { Backend, connectClient, hello, servedBy } from './given.ts';

const GOOD = `
listen: [{ on: ":6443", agents: [10.0.0.0/8] }, { on: "127.0.0.1:7443", only: [konnectivity] }]
clusters:
  - name: lab
    id: lab-1
    allow: [10.0.0.0/8]
    api: { hosts: [api.lab.test], backends: ["192.0.2.1:6443"] }
    konnectivity: { hosts: [konnectivity.lab.test], backends: ["192.0.2.1:8132", "192.0.2.2:8132"] }
`;
/** Names for CONNECT, which not every engine has. */
const CONNECT = GOOD.replace('api: {', 'api: { connect: [lab.svc],');
const BAD = `listen: [":6443", "nonsense"]
clusterz: []
clusters:
  - { name: lab, allow: [10.0.0.0/99], api: { backends: ["192.0.2.1:0"] } }
`;
/** In the order of the file. */
const MISTAKES = [
  ':1:19: listen\\[1\\]: .*"nonsense"',
  ':2:1: .*"clusterz".*"clusters"',
  ':4:26: clusters\\[0\\]\\.allow\\[0\\]: .*"10\\.0\\.0\\.0/99"',
  ':4:58: clusters\\[0\\]\\.api\\.backends\\[0\\]: .*"192\\.0\\.2\\.1:0"',
];

let dir: TempDir;
let good: string;
let bad: string;

before(async () => {
  dir = await tempDir();
  [good, bad] = [dir.file('good.yaml'), dir.file('bad.yaml')];
  await writeFile(good, GOOD);
  await writeFile(bad, BAD);
});

after(() => dir[Symbol.asyncDispose]());

async function causeway(
  ...args: readonly string[]
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const { code, stdout, stderr } = await run(causewayBin, args);
  assert.doesNotMatch(`${stdout}${stderr}`, /\n\s+at |node:internal|Error:/);
  return { code, stdout: stdout.toString(), stderr };
}

/** Asserts that it exits with that code and prints exactly these lines on stderr. */
async function fails(code: number, args: readonly string[], ...lines: readonly RegExp[]): Promise<void> {
  const result = await causeway(...args);
  assert.equal(result.code, code, result.stderr);
  assert.equal(result.stdout, '');
  const said = result.stderr.trimEnd().split('\n');
  assert.equal(said.length, lines.length, result.stderr);
  for (const [i, line] of lines.entries()) assert.match(said[i], line);
}

/** For `skip`: why a capability cannot be dropped here; false if it can. */
function cannotTakeAway(): string | false {
  if (process.getuid?.() !== 0) return 'only root can take a right from a program';
  const first = readFileSync('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'utf8').trim();
  return Number(first) > 443 ? false : `port 443 is not privileged here: the first that is not is ${first}`;
}

async function fileOf(text: string): Promise<string> {
  const name = dir.file(`${Math.random()}.yaml`);
  await writeFile(name, text);
  return name;
}

describe('run', { concurrency: true }, () => {
  test('no file → 1', async () => {
    const missing = dir.file('missing.yaml');
    for (const args of [
      ['run', '-c', missing],
      ['run', missing],
      ['check', missing],
    ])
      await fails(1, args, /^\S+missing\.yaml: there is no such file$/);
    await fails(2, ['explain', '-c', missing, 'a.test'], /^\S+missing\.yaml: there is no such file$/);
    const { code, stdout } = await causeway('check', missing, '--json');
    assert.equal(code, 1);
    const [{ line, column, text }] = JSON.parse(stdout).mistakes;
    assert.deepEqual([line, column, text], [null, null, 'there is no such file']);
  });

  test('a directory → 1', async () => {
    await fails(1, ['run', '-c', dir.path], /must be a file: this is a directory$/);
  });

  // Root may read every file.
  if (process.getuid?.() !== 0) {
    test('an unreadable file → 1', async () => {
      const secret = await fileOf(GOOD);
      await chmod(secret, 0);
      await fails(1, ['run', '-c', secret], /permission/);
    });
  }

  test('an invalid file → 1, with every error', async () => {
    await fails(1, ['run', '-c', bad], ...MISTAKES.map(mistake => new RegExp(`bad\\.yaml${mistake}`)));
  });

  test('a setting that the engine cannot serve → 1, with its place', async () => {
    await fails(
      1,
      ['run', '-c', await fileOf(CONNECT), '--engine', 'haproxy'],
      /\.yaml:7:21: clusters\[0\]\.api\.connect: HAProxy cannot route CONNECT/,
    );
  });

  test('a port that another process listens on → 2', async () => {
    const taken = createServer();
    await new Promise<void>(resolve => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    const hint =
      'address already in use by another process \\(.*, process \\d+, user \\w+\\); stop it or choose another port$';
    for (const on of [`127.0.0.1:${port}`, `:${port}`]) {
      const file = await fileOf(`listen: ["${on}"]\nadmin: { on: "off" }\n`);
      await fails(2, ['run', '-c', file], new RegExp(`^Cannot listen on '${on}': ${hint}`));
    }
    const admin = await fileOf(`listen: ["127.0.0.1:0"]\nadmin: { on: "127.0.0.1:${port}" }\n`);
    await fails(
      2,
      ['run', '-c', admin],
      new RegExp(`^Cannot listen on '127\\.0\\.0\\.1:${port} \\(admin\\.on\\)': ${hint}`),
    );
    taken.close();
  });

  test('a port that another causeway listens on → 2, and that one keeps serving', async () => {
    await using backend = await Backend.start({ name: 'first' });
    const port = await freePort();
    const clusters = `clusters: [{ name: lab, api: { hosts: [lab.test], backends: ["${backend.text}"] } }]`;
    await using first = await startCauseway({ config: `listen: [":${port}"]\nworkers: 2\n${clusters}\n` });
    for (const on of [`:${port}`, `127.0.0.1:${port}`]) {
      const file = await fileOf(`listen: ["${on}"]\nadmin: { on: "off" }\nworkers: 2\n`);
      await fails(2, ['run', '-c', file], new RegExp(`^Cannot listen on '${on}': address already in use`));
    }
    for (let i = 0; i < 8; i++) assert.equal(await servedBy(first.port, hello('lab.test')), 'first');
  });

  test('a port in TIME_WAIT can be used', async () => {
    await using backend = await Backend.start({ name: 'backend' });
    const port = await freePort();
    const config = `listen: ["127.0.0.1:${port}"]
clusters: [{ name: lab, api: { hosts: [lab.test], backends: ["${backend.text}"] } }]`;
    for (let turn = 0; turn < 2; turn++) {
      await using gateway = await startCauseway({ config });
      // The gateway closes first, so its side of the port is in TIME_WAIT.
      using client = await connectClient(gateway.port);
      client.send(hello('nobody.test'));
      await client.untilEnd();
    }
  });

  test('ready: one JSON line with the actual addresses', async () => {
    await using gateway = await startCauseway({
      config: `
listen: ["127.0.0.1:0", "[::1]:0", ":0"]
workers: 2
clusters:
  - name: lab
    api: { hosts: [api.lab.test], backends: [] }
    apps: { hosts: ["*.a.lab.test", b.lab.test], http: redirect }
`,
      args: ['--workers', '1'],
    });
    const lines = gateway.program.log().trimEnd().split('\n');
    assert.equal(lines.length, 1);
    const { level, msg, listen, admin, engine, workers, time, version, ...rest } = JSON.parse(lines[0]);
    assert.deepEqual(rest, { replaced: null, clusters: 1, routes: 2, hosts: 3 });
    assert.match(version, /^\d+\.\d+\.\d+/);
    assert.deepEqual([level, msg, workers], ['info', 'ready', 1]);
    assert.ok(['net', 'epoll', 'haproxy'].includes(engine));
    assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000);
    assert.match(listen.join(' '), /^127\.0\.0\.1:\d+ \[::1\]:\d+ \[::\]:\d+$/);
    assert.match(admin, /^http:\/\/127\.0\.0\.1:\d+$/);
  });

  test('stopped: the last line after an orderly exit', async () => {
    await using gateway = await startCauseway({ config: 'listen: ["127.0.0.1:0"]\n' });
    gateway.program.signal('SIGTERM');
    assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
    assert.deepEqual(
      gateway.lines().map(({ msg }) => msg),
      ['ready', 'draining', 'stopped'],
    );
  });

  test('a port below 1024 without the capability → 2, and what to do', {
    skip: cannotTakeAway(),
  }, async () => {
    const file = await fileOf('listen: ["127.0.0.1:443"]\nadmin: { on: "off" }\n');
    const without = ['--bounding-set', '-net_bind_service', '--inh-caps', '-net_bind_service'];
    const { code, stderr } = await run('setpriv', [...without, causewayBin, 'run', file]);
    assert.equal(code, 2, stderr);
    assert.match(
      stderr,
      /^Cannot listen on '127\.0\.0\.1:443': permission denied; .*AmbientCapabilities=.*net\.ipv4\.ip_unprivileged_port_start=443.*setcap .*\n$/,
    );
  });

  test('log.connections: refused logs refusals only', async () => {
    await using backend = await Backend.start({ name: 'backend' });
    await using gateway = await startCauseway({
      config: `listen: ["127.0.0.1:0"]
log: { connections: refused }
clusters: [{ name: lab, api: { hosts: [lab.test], backends: ["${backend.text}"] } }]`,
    });
    assert.equal(await servedBy(gateway.port, hello('lab.test')), 'backend');
    using client = await connectClient(gateway.port);
    client.send(hello('nobody.test'));
    await client.untilEnd();
    await gateway.line(line => line.reason === 'unknown-host');
    assert.equal(gateway.connections().length, 1);
  });
});

describe('wrong usage → 64', { concurrency: true }, () => {
  for (const [args, said] of [
    [['runn'], /^causeway: Unknown command 'runn'\. Did you mean 'run'\? /],
    [['help', 'nope'], /^causeway: Unknown command 'nope'\. See 'causeway help'$/],
    [['help', 'run', 'more'], /^causeway: 'causeway help run' takes no further arguments: more$/],
    [['--version', 'more'], /^causeway: 'causeway --version' takes no further arguments: more$/],
    [['run', '--nope'], /^causeway: Unknown option '--nope'\. See 'causeway help run'$/],
    [['run', '-c'], /^causeway: .*See 'causeway help run'$/],
    [['run', 'a', 'b'], /^causeway: Give exactly one file: causeway run -c causeway\.yaml$/],
    [['check', '-c', 'a', 'b'], /^causeway: Give exactly one file: causeway check -c causeway\.yaml$/],
    [['run', '-c', ''], /^causeway: Give exactly one file: /],
    [['run', '-c', 'x', '--workers', '0'], /^causeway: --workers must be .*: 0$/],
    [['check', '-c', 'x', '--engine', 'nope'], /^causeway: --engine must be one of .*: nope$/],
    [['explain', '-c', 'x', 'a', 'b'], /^causeway: Give exactly one host: /],
    [['explain', 'ftp://a.test'], /^causeway: The host must be a name, or a URL with https or http: /],
    [['explain', 'http://a.test', '--protocol', 'tls'], /^causeway: A URL with http is http, not tls: /],
    [['explain', '-c', 'x', '--admin', 'http://127.0.0.1:1', 'a'], /^causeway: Give either -c .*, not both$/],
  ] as const) {
    test(['causeway', ...args].join(' '), () => fails(64, args, said));
  }

  test('causeway', async () => {
    const { code, stdout, stderr } = await causeway();
    assert.deepEqual([code, stdout], [64, '']);
    assert.match(stderr, /^Usage: causeway COMMAND/m);
  });
});

describe('help', { concurrency: true }, () => {
  for (const asked of ['--version', '-v', 'version']) {
    test(`${asked} prints the version of the package`, async () => {
      const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
      assert.deepEqual(await causeway(asked), { code: 0, stdout: `causeway ${version}\n`, stderr: '' });
    });
  }

  test('help lists every command', async () => {
    const { code, stdout, stderr } = await causeway('help');
    assert.deepEqual([code, stderr], [0, '']);
    for (const command of ['run', 'check', 'explain', 'status', 'identity', 'help', 'version']) {
      assert.match(stdout, new RegExp(`^  ${command}\\b`, 'm'));
    }
    for (const [, summary] of stdout.matchAll(/^ {2}(?:run|check|status|demo|agent) +(.*)$/gm))
      assert.match(summary, /^[A-Z]/);
  });

  test('help run and run --help print the same', async () => {
    const [byHelp, byFlag] = await Promise.all([causeway('help', 'run'), causeway('run', '--help')]);
    assert.deepEqual(byHelp, byFlag);
    assert.equal(byHelp.code, 0);
    for (const word of ['--config', '--engine', '--workers', 'SIGHUP', 'SIGTERM'])
      assert.ok(byHelp.stdout.includes(word));
  });
});

describe('check', { concurrency: true }, () => {
  test('a valid file → 0 with a summary', async () => {
    assert.deepEqual(await causeway('check', '-c', good), {
      code: 0,
      stdout: 'ok: 1 cluster, 2 routes, 2 hosts\n',
      stderr: '',
    });
  });

  test('a valid file as JSON', async () => {
    const { code, stdout, stderr } = await causeway('check', '-c', good, '--json');
    assert.deepEqual([code, stderr], [0, '']);
    const { ok, mistakes, counts } = JSON.parse(stdout);
    assert.deepEqual(
      { ok, mistakes, counts },
      { ok: true, mistakes: [], counts: { clusters: 1, routes: 2, hosts: 2 } },
    );
  });

  test('an invalid file → 1, with every error on stderr', async () => {
    await fails(1, ['check', '-c', bad], ...MISTAKES.map(mistake => new RegExp(`bad\\.yaml${mistake}`)));
  });

  test('an invalid file as JSON', async () => {
    const { code, stdout, stderr } = await causeway('check', '-c', bad, '--json');
    assert.deepEqual([code, stderr], [1, '']);
    const report = JSON.parse(stdout);
    assert.equal(report.ok, false);
    const places = report.mistakes.map(
      ({ line, column }: { line: number; column: number }) => `${line}:${column}`,
    );
    assert.deepEqual(places, ['1:19', '2:1', '4:26', '4:58']);
  });

  test('what the engine does otherwise is a warning, what it cannot do → 1', async () => {
    const { code, stderr } = await causeway('check', '-c', good, '--engine', 'haproxy');
    assert.equal(code, 0, stderr);
    assert.match(stderr, /^warning: .*good\.yaml: engine: HAProxy sends no TLS alert/m);
    const refused = await causeway('check', '-c', await fileOf(CONNECT), '--engine', 'haproxy');
    assert.equal(refused.code, 1);
    assert.match(
      refused.stderr,
      /^.*\.yaml:7:21: clusters\[0\]\.api\.connect: HAProxy cannot route CONNECT/m,
    );
  });
});

describe('the file', { concurrency: true }, () => {
  test('defaults to causeway.yaml in the current directory', async () => {
    await using place = await tempDir();
    const here = (...args: readonly string[]) => run(causewayBin, args, { cwd: place.path });
    const missing = await here('check');
    assert.deepEqual([missing.code, missing.stderr], [1, 'causeway.yaml: there is no such file\n']);
    await writeFile(place.file('causeway.yaml'), GOOD);
    const checked = await here('check');
    assert.deepEqual([checked.code, String(checked.stdout)], [0, 'ok: 1 cluster, 2 routes, 2 hosts\n']);
    assert.equal((await here('explain', 'api.lab.test')).code, 0);
    await writeFile(place.file('causeway.yaml'), 'listen: [nonsense]\n');
    for (const args of [['run'], ['check']]) {
      const { code, stderr } = await here(...args);
      assert.equal(code, 1);
      assert.match(stderr, /^causeway\.yaml:1:10: listen\[0\]: /);
    }
  });

  test('can be an argument of check and run', async () => {
    const { code, stdout } = await causeway('check', good);
    assert.deepEqual([code, stdout], [0, 'ok: 1 cluster, 2 routes, 2 hosts\n']);
    await fails(1, ['run', bad], ...MISTAKES.map(mistake => new RegExp(`bad\\.yaml${mistake}`)));
  });
});

describe('explain', { concurrency: true }, () => {
  test('accepts a URL, whose port selects the listener', async () => {
    for (const [url, from, line] of [
      ['https://api.lab.test:6443/version', '10.1.2.3', /^served by lab\/api at 192\.0\.2\.1:6443$/m],
      ['https://konnectivity.lab.test:7443', '10.1.2.3', /^✓ accept +on 127\.0\.0\.1:7443, which/m],
      ['http://api.lab.test', '10.1.2.3', /^✗ route +'api\.lab\.test' is .* reached only by TLS$/m],
      ['https://api.lap.test', '10.1.2.3', /; did you mean 'api\.lab\.test' of cluster 'lab'\?$/m],
      [
        'https://api.lab.test',
        '11.1.2.3',
        /^✗ admit +11\.1\.2\.3 matches no entry of allow of cluster 'lab', which has 10\.0\.0\.0\/8$/m,
      ],
    ] as const) {
      const { stdout } = await causeway('explain', '-c', good, url, '--from', from);
      assert.match(stdout, line);
    }
  });

  test('asks a running gateway, which knows the health of backends', async () => {
    const port = await freePort();
    await using gateway = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
clusters:
  - name: lab
    api: { hosts: [api.lab.test], backends: ["127.0.0.1:${port}"], health: { check: tcp, every: 1h } }
`,
    });
    await gateway.line(({ msg }) => msg === 'health');
    const ask = (...args: readonly string[]) => causeway('explain', '--admin', gateway.admin, ...args);
    const { code, stdout } = await ask('https://api.lab.test/');
    assert.equal(code, 1);
    const lines = stdout.trimEnd().split('\n');
    assert.equal(
      lines.at(-2),
      `✗ dial     would fail: connect-failed; the only backend is down, but still tried: 127.0.0.1:${port} (connection refused)`,
    );
    assert.equal(lines.at(-1), 'would fail: connect-failed');
    const json = JSON.parse((await ask('api.lab.test', '--json')).stdout);
    assert.deepEqual([json.served, json.reason, json.cluster], [false, 'connect-failed', 'lab']);
    await fails(
      2,
      ['explain', '--admin', gateway.admin, 'api.lab.test', '--from', 'nonsense'],
      /^causeway: http:\/\/\S+ answered 400: The client address must be /,
    );
    await fails(
      2,
      ['explain', '--admin', `http://127.0.0.1:${port}`, 'api.lab.test'],
      /^causeway: Nothing listens on /,
    );
  });

  const stages = ['accept', 'identify', 'route', 'admit', 'dial'];

  test('a served connection → 0, stage by stage', async () => {
    const { code, stdout, stderr } = await causeway(
      'explain',
      '-c',
      good,
      'api.lab.test',
      '--from',
      '10.1.2.3',
    );
    assert.deepEqual([code, stderr], [0, '']);
    const lines = stdout.trimEnd().split('\n');
    assert.deepEqual(
      lines.slice(0, -1).map(line => line.split(/\s+/).slice(0, 2).join(' ')),
      stages.map(stage => `✓ ${stage}`),
    );
    assert.equal(lines.at(-1), 'served by lab/api at 192.0.2.1:6443');
  });

  for (const [args, expected] of [
    [
      ['konnectivity.lab.test', '--on', '127.0.0.1:7443'],
      { served: true, reason: null, cluster: 'lab', route: 'konnectivity', backend: null, stages: 5 },
    ],
    [
      ['x.test', '--id', 'lab-1', '--from', '10.1.2.3'],
      { served: true, reason: null, cluster: 'lab', route: 'api', backend: '192.0.2.1:6443', stages: 5 },
    ],
    [
      ['api.lab.test', '--from', '11.1.2.3'],
      { served: false, reason: 'not-allowed', cluster: 'lab', route: 'api', backend: null, stages: 4 },
    ],
    [
      ['api.lab.test', '--on', '127.0.0.1:7443'],
      { served: false, reason: 'unknown-host', cluster: null, route: null, backend: null, stages: 3 },
    ],
    [
      ['lab', '--protocol', 'connect', '--from', '11.1.2.3'],
      { served: false, reason: 'untrusted-agent', cluster: null, route: null, backend: null, stages: 2 },
    ],
  ] as const) {
    test(`${args.join(' ')} --json → ${expected.reason ?? `${expected.cluster}/${expected.route}`}`, async () => {
      const { code, stdout, stderr } = await causeway('explain', '-c', good, ...args, '--json');
      assert.deepEqual([code, stderr], [expected.served ? 0 : 1, '']);
      const { stages: reported, ...answer } = JSON.parse(stdout);
      const { stages: count, ...rest } = expected;
      assert.deepEqual(answer, rest);
      assert.deepEqual(
        reported.map(({ stage }: { stage: string }) => stage),
        stages.slice(0, count),
      );
      assert.deepEqual(
        reported.map(({ ok }: { ok: boolean }) => ok),
        stages.slice(0, count).map((_, i) => expected.served || i < count - 1),
      );
      for (const stage of reported) assert.deepEqual(Object.keys(stage), ['stage', 'ok', 'text']);
    });
  }

  test('an invalid file → 2', async () => {
    await fails(
      2,
      ['explain', '-c', bad, 'api.lab.test'],
      ...MISTAKES.map(mistake => new RegExp(`bad\\.yaml${mistake}`)),
    );
  });

  test('an unknown listener → 64', async () => {
    await fails(
      64,
      ['explain', '-c', good, 'api.lab.test', '--on', ':1'],
      /^causeway: There is no listener ':1'; there are ':6443', '127\.0\.0\.1:7443'$/,
    );
  });
});
