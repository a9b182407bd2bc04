// What the doctor sees as any client does, without a kubeconfig: each thing is broken on purpose, and the doctor must name
// it and nothing else.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { Network } from '../../src/doctor/network.ts';
import { nodeNetwork } from '../../src/doctor/node-network.ts';
import { certificateFor, expiredCertificate } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingNetns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { startBlackHole, until } from '../features/given.ts';
import {
  type Asked,
  askDoctor,
  lookupOf,
  type Question,
  startHttps,
  startTcp,
  startTls,
} from './ask-doctor.ts';

const skip = missingPrograms('openssl');
const TIMEOUT_MS = 300_000;
const DAY_MS = 86_400_000;
const INSIDE = ['kubernetes.default.svc', '10.96.0.1'] as const;

describe('doctor from outside', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let gateway: Causeway;
  let hole: Awaited<ReturnType<typeof startBlackHole>>;
  /** Clusters by name, as YAML. */
  const clusters = new Map<string, string>();

  before(async () => {
    await addClusters();
    hole = stack.use(await startBlackHole());
    const down = await freePort();
    cluster('down', `{ api: { hosts: [api.down.test], backends: ["127.0.0.1:${down}"] } }`);
    const good = /127\.0\.0\.1:\d+/.exec(clusters.get('good') ?? '')?.[0] ?? '';
    cluster('half', `{ api: { hosts: [api.half.test], backends: ["${good}", "127.0.0.1:${down}"] } }`);
    gateway = stack.use(await startCauseway({ config: file({ port: 0, health: true }) }));
    await until('both backends of half are known', async () =>
      (await backendsOf('half')).every(({ up }) => up !== null),
    );
  });
  after(() => stack.disposeAsync());

  function cluster(name: string, yaml: string): void {
    clusters.set(name, yaml);
  }

  async function api(name: string, options: Partial<Parameters<typeof startHttps>[0]> = {}): Promise<void> {
    const certificate =
      options.certificate ?? (await certificateFor(`api.${name}.test`, 'api.half.test', ...INSIDE));
    const server = stack.use(await startHttps({ ...options, certificate }));
    cluster(name, `{ api: { hosts: [api.${name}.test], backends: ["127.0.0.1:${server.port}"] } }`);
  }

  async function addClusters(): Promise<void> {
    await api('good');
    await api('denied');
    cluster('denied', (clusters.get('denied') ?? '').replace('{ api', '{ allow: [192.0.2.0/24], api'));
    await api('unready', {
      answer: (_, response) => void response.writeHead(500).end('[+]ping ok\n[-]etcd failed\n'),
    });
    await api('elsewhere', { answer: (_, response) => void response.writeHead(404).end() });
    await api('old', { isOld: true });
    await api('renamed', { certificate: await certificateFor('api.former.test', ...INSIDE) });
    await api('outside', { certificate: await certificateFor('api.outside.test') });
    const mute = stack.use(
      await startTls(
        await certificateFor('api.mute.test', ...INSIDE),
        ['h2', 'http/1.1'],
        socket => void socket.end(),
      ),
    );
    cluster('mute', `{ api: { hosts: [api.mute.test], backends: ["127.0.0.1:${mute.port}"] } }`);
    const plain = stack.use(await startTcp(socket => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')));
    cluster('plain', `{ api: { hosts: [api.plain.test], backends: ["127.0.0.1:${plain.port}"] } }`);
    for (const [name, alpn] of [
      ['k-old', ['http/1.1']],
      ['k-mute', ['h2']],
    ] as const) {
      const server = stack.use(await startTls(await certificateFor(`k.${name}.test`), alpn, () => {}));
      cluster(name, `{ konnectivity: { hosts: [k.${name}.test], backends: ["127.0.0.1:${server.port}"] } }`);
    }
    await apps('expired', await expiredCertificate('www.expired.test'));
    await apps('dated', await certificateFor('www.dated.test'));
    const wide = await certificateFor('*.shared.test');
    await apps('one', wide, 'one.shared.test');
    await apps('two', wide, 'two.shared.test');
  }

  async function apps(
    name: string,
    certificate: Awaited<ReturnType<typeof certificateFor>>,
    host = `www.${name}.test`,
  ) {
    const server = stack.use(await startHttps({ certificate }));
    cluster(name, `{ apps: { hosts: [${host}], https: ["127.0.0.1:${server.port}"] } }`);
  }

  interface FileOptions {
    readonly port?: number;
    readonly health?: boolean;
    readonly names?: readonly string[];
    /** Further keys of the file. */
    readonly keys?: string;
    readonly listener?: string;
  }

  function file({
    port = gateway.port,
    health = false,
    names = [...clusters.keys()],
    keys = '',
    listener = '',
  }: FileOptions): string {
    const list = names.map(name => `  - { name: ${name}, ${clusters.get(name)?.slice(1)}`).join('\n');
    return `listen: [{ on: "127.0.0.1:${port}"${listener} }]\n${keys}\nclusters:\n${list}\n${health ? '# health: as by default\n' : ''}`;
  }

  async function backendsOf(name: string) {
    const found = (await (await fetch(`${gateway.admin}/api/v1/clusters/${name}`)).json()) as {
      routes: { backends: { up: boolean | null }[] }[];
    };
    return found.routes.flatMap(({ backends }) => backends);
  }

  function ask(cluster: string | undefined, options: FileOptions & Partial<Question> = {}): Promise<Asked> {
    const { port = gateway.port, names = [...clusters.keys()], keys = '', listener = '', ...rest } = options;
    const config = options.config ?? file({ port, names, keys, listener });
    return askDoctor({ cluster, ...rest, config });
  }

  test('a healthy cluster has nothing but ok', async () => {
    const { codes, checks, notChecked } = await ask('good');
    assert.deepEqual(codes, [], JSON.stringify(checks, undefined, 1));
    const steps = new Set(checks.map(({ step }) => step));
    assert.deepEqual([...steps], ['config', 'tcp', 'tls', 'route', 'api', 'clocks']);
    assert.match(notChecked[0], /^dns: only this machine reaches the gateway/);
  });

  const AT = '198.51.100.1';
  const given = (host = AT) => ({ address: { host, port: 6443 } });
  /** Answers for the gateway at another address. */
  function network(): Network {
    const at = { host: '127.0.0.1', port: gateway.port };
    return {
      dial: () => nodeNetwork.dial(at),
      shake: request => nodeNetwork.shake({ ...request, at }),
      ask: request => nodeNetwork.ask({ ...request, at }),
    };
  }

  const BROKEN: readonly (readonly [
    what: string,
    cluster: string | undefined,
    options: () => FileOptions & Partial<Question>,
    codes: readonly string[],
  ])[] = [
    ['a mistake in the file', undefined, () => ({ config: 'listen: 3' }), ['ConfigInvalid']],
    [
      'a key that is probably not meant',
      'good',
      () => ({ listener: ', only: [api, apis]', names: ['good'] }),
      ['ConfigWarning'],
    ],
    ['an idle timeout of a minute', 'good', () => ({ keys: 'timeouts: { idle: 1m }' }), ['IdleTimeoutShort']],
    ['no keepalive', 'good', () => ({ keys: 'timeouts: { keepalive: off }' }), ['KeepaliveSlow']],
    ['a keepalive of 5 minutes', 'good', () => ({ keys: 'timeouts: { keepalive: 5m }' }), ['KeepaliveSlow']],
    [
      'balancers from everywhere',
      'good',
      () => ({ listener: ', balancers: [0.0.0.0/0]' }),
      ['BalancersUnrestricted'],
    ],
    [
      'agents from everywhere without signatures',
      'good',
      () => ({
        config: file({ listener: ', agents: ["::/0"]' }).replace('name: mute,', 'name: mute, id: m,'),
      }),
      ['AgentsUnrestricted'],
    ],
    [
      'source balance for konnectivity',
      'k',
      () => ({ config: twoKonnectivities(', balance: source') }),
      ['KonnectivityBalance'],
    ],
    [
      'several backends without checks',
      'k',
      () => ({ config: twoKonnectivities(', health: { check: none }') }),
      ['HealthChecksOff'],
    ],
    ['a name that does not resolve', 'good', () => ({ ...given() }), ['DnsMissing']],
    [
      'a name that leads elsewhere',
      'good',
      () => ({ ...given(), lookup: lookupOf({ 'api.good.test': '192.0.2.9' }) }),
      ['DnsElsewhere'],
    ],
    [
      'a resolver that does not answer',
      'good',
      () => ({
        ...given(),
        lookup: async () => ({ status: 'failed', addresses: [], chain: [], why: 'ESERVFAIL' }),
      }),
      ['DnsFailed'],
    ],
    [
      'a long TTL',
      'good',
      () => ({
        ...given(),
        lookup: async (_, type) => ({
          status: type === 'A' ? 'answered' : 'no-data',
          addresses: type === 'A' ? [AT] : [],
          ttl: 86_400,
          chain: [],
        }),
      }),
      ['DnsTtlLong'],
    ],
    [
      'a name that hides a wildcard',
      'good',
      () => ({
        ...given(),
        lookup: async (name, type) => ({
          status: name === 'api.good.test' ? 'no-data' : 'answered',
          addresses: name === 'api.good.test' || type !== 'A' ? [] : [AT],
          chain: [],
        }),
      }),
      ['DnsSwallowed'],
    ],
    ['nobody listening', 'good', () => ({ port: 1 }), ['TcpRefused']],
    ['a listener that does not answer', 'good', () => ({ port: hole.port }), ['TcpTimeout']],
    [
      'a route that the listener leaves out',
      'good',
      () => ({ listener: ', only: [apps-https]' }),
      ['NotRouted'],
    ],
    [
      'a gateway that serves another file',
      'good',
      () => ({ config: file({ names: ['good'] }).replaceAll('api.good.test', 'api.new.test') }),
      ['NotServed'],
    ],
    ['an allow list without this machine', 'denied', () => ({}), ['NotAllowed']],
    ['a backend that is down', 'down', () => ({}), ['BackendDown']],
    ['a backend that speaks no TLS', 'plain', () => ({}), ['TlsFailed']],
    ['an expired certificate', 'expired', () => ({}), ['CertificateExpired']],
    [
      'a certificate that expires in ten days',
      'dated',
      () => ({ aheadMs: 20 * DAY_MS }),
      ['CertificateExpires'],
    ],
    ['a certificate of tomorrow', 'dated', () => ({ aheadMs: -DAY_MS }), ['CertificateNotYetValid']],
    ['a certificate of a former host', 'renamed', () => ({}), ['CertificateSanMissing']],
    ['a certificate without the names inside', 'outside', () => ({}), ['CertificateSanMissing']],
    ['no HTTP/2 at the API server', 'old', () => ({}), ['AlpnMissing']],
    ['an API server that is not ready', 'unready', () => ({}), ['ApiNotReady']],
    ['something else than an API server', 'elsewhere', () => ({}), ['ApiUnexpected']],
    ['a server that closes after the handshake', 'mute', () => ({}), ['ApiNoAnswer']],
    ['konnectivity without HTTP/2', 'k-old', () => ({}), ['KonnectivityNoHttp2']],
    ['konnectivity that says nothing', 'k-mute', () => ({}), ['KonnectivitySilent']],
    ['a clock that is 45 s ahead', 'good', () => ({ aheadMs: 45_000 }), ['ClockSkew']],
    [
      'a certificate that two clusters share',
      undefined,
      () => ({ names: ['one', 'two'] }),
      ['CertificateShared'],
    ],
  ];
  for (const [what, name, options, codes] of BROKEN) {
    test(`doctor names ${what}, and nothing else`, async () => {
      const question = options();
      const isAway = question.address !== undefined;
      const asked = await ask(name, { ...question, ...(isAway && { network: network() }) });
      assert.deepEqual(asked.codes, codes, JSON.stringify(asked.checks, undefined, 1));
      for (const { status, fix } of asked.checks)
        assert.equal(fix !== null && fix.length > 10, status !== 'ok');
    });
  }

  function adminOf({ admin }: Causeway) {
    return () => async (path: string) => (await fetch(`${admin}${path}`)).json();
  }

  /** A cluster that only the file has. */
  function twoKonnectivities(more: string): string {
    return `${file({ names: ['good'] })}  - { name: k, konnectivity: { connect: [k.svc], backends: ["127.0.0.1:1", "127.0.0.1:2"]${more} } }\n`;
  }

  test('doctor names a gateway to which this machine has no route, and nothing else', async () => {
    const host = '255.255.255.255';
    const { codes, checks } = await ask('good', {
      address: { host, port: 6443 },
      lookup: lookupOf({ 'api.good.test': host }),
    });
    assert.deepEqual(codes, ['TcpUnreachable'], JSON.stringify(checks, undefined, 1));
  });

  test('doctor names an edit that the running gateway refused, and nothing else', async () => {
    await using taken = await startTcp(() => {});
    await using own = await startCauseway({ config: file({ port: 0, names: ['good', 'dated'] }) });
    const config = file({ port: 0, names: ['good', 'dated'] }).replace(
      'listen: [',
      `listen: [{ on: "127.0.0.1:${taken.port}", only: [apps-https] }, `,
    );
    await own.write(config);
    await own.line(({ msg }) => String(msg).startsWith('file refused'));
    const { codes, checks } = await ask('good', { config, adminOf: adminOf(own) });
    assert.deepEqual(codes, ['ConfigRefused'], JSON.stringify(checks, undefined, 1));
  });

  test('doctor names a change that needs a restart, and nothing else', async () => {
    await using own = await startCauseway({ config: file({ port: 0, names: ['good'], keys: 'workers: 1' }) });
    const config = file({ port: 0, names: ['good'], keys: 'workers: 2' });
    await own.write(config);
    await until('the edit', async () => {
      const { config: served } = (await own.status()) as { config: { restartNeeded: readonly string[] } };
      return served.restartNeeded.length > 0;
    });
    const { codes, checks } = await ask('good', { config, adminOf: adminOf(own) });
    assert.deepEqual(codes, ['RestartNeeded'], JSON.stringify(checks, undefined, 1));
  });

  test('doctor names an ACL on fc_pp_tlv in the HAProxy of this machine, and nothing else', {
    skip: missingPrograms('haproxy', 'unshare') || missingNetns(),
  }, async () => {
    await using dir = await tempDir();
    await writeFile(dir.file('causeway.yaml'), file({}));
    await writeFile(
      dir.file('haproxy.cfg'),
      'frontend tenants\n  mode tcp\n  bind :6443 accept-proxy\n  acl is_a fc_pp_tlv(0x20) -m str a-1\n',
    );
    // Only for this process, its folder is /etc/haproxy.
    const { code, stdout, stderr } = await run('unshare', [
      '--mount',
      'sh',
      '-c',
      'mount --bind "$1" /etc/haproxy && exec "$2" doctor -c "$1/causeway.yaml" good --json',
      'sh',
      dir.path,
      causewayBin,
    ]);
    assert.equal(code, 0, stderr);
    const { checks } = JSON.parse(stdout.toString()) as { checks: { code: string; text: string }[] };
    const wrong = checks.filter(check => check.code !== 'Ok');
    assert.deepEqual(
      wrong.map(check => check.code),
      ['HaproxyTlvAcl'],
    );
    assert.match(wrong[0].text, /^\/etc\/haproxy\/haproxy\.cfg:4: /);
  });

  test('doctor names a backend of two that is down, as the gateway knows', async () => {
    // The gateway listens on any port, and says which.
    const { codes, checks } = await ask('half', { port: 0, adminOf: adminOf(gateway) });
    assert.deepEqual(codes, ['BackendDown'], JSON.stringify(checks, undefined, 1));
    assert.equal(checks.find(({ code }) => code === 'BackendDown')?.status, 'warn');
  });

  test('doctor names a proxy in front that reads only one segment', async () => {
    await using proxy = await startTcp(client => {
      client.once('data', (first: Buffer) => {
        const isWhole = first.length >= 5 + first.readUInt16BE(3);
        if (!isWhole) return void client.destroy();
        const upstream = connect(gateway.port, '127.0.0.1');
        upstream.on('error', () => client.destroy());
        upstream.write(first);
        client.pipe(upstream).pipe(client);
      });
    });
    const { codes } = await ask('good', { address: { host: '127.0.0.1', port: proxy.port } });
    assert.deepEqual(codes, ['LargeHelloLost']);
  });

  test('causeway doctor prints a table, or JSON alone on stdout, and exits with 0, 1 or 2', async () => {
    const path = `${gateway.file}.doctor`;
    await writeFile(path, file({}));
    const good = await run(causewayBin, ['doctor', '-c', path, 'good']);
    assert.equal(good.code, 0, good.stderr);
    assert.match(
      good.stdout.toString(),
      /^gateway\n  ✓ config .*\n[^]*\ncluster good\n[^]*\nok: \d+ checks, nothing is wrong\n$/,
    );
    const bad = await run(causewayBin, ['doctor', '-c', path, 'down', '--json', '--fix']);
    const { ok, checks, notChecked, repairs } = JSON.parse(bad.stdout.toString());
    assert.deepEqual([bad.code, bad.stderr, ok, repairs], [1, '', false, []]);
    assert.ok(notChecked.length > 0);
    const failed = checks.filter(({ status }: { status: string }) => status === 'fail');
    assert.deepEqual(
      failed.map(({ step, cluster, code }: Record<string, string>) => [step, cluster, code]),
      [['tls', 'down', 'BackendDown']],
    );
    for (const [args, sentence] of [
      [['-c', path, 'nobody'], /^causeway: There is no cluster 'nobody'; there are 'good', .*\n$/],
      [['-c', `${path}.missing`], /^causeway: .*: there is no such file\n$/],
      [
        ['-c', path, 'good', '--tenant-kubeconfig', '/nowhere'],
        /^causeway: The kubeconfig '\/nowhere' cannot be read: ENOENT\n$/,
      ],
    ] as const) {
      const { code, stdout, stderr } = await run(causewayBin, ['doctor', ...args]);
      assert.deepEqual([code, stdout.toString()], [2, '']);
      assert.match(stderr, sentence);
    }
    const usage = await run(causewayBin, ['doctor', '--address', 'gw.example.com']);
    assert.equal(usage.code, 64);
  });
});
