import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type Config } from '../../config/config.ts';
import { readConfig } from '../../config/read-config.ts';
import { finishImport } from '../finish-import.ts';
import type { SourceFile } from '../imported.ts';
import { importHaproxy } from './import-haproxy.ts';

const SAMPLES = join(import.meta.dirname, '../samples');

function sample(name: string): string {
  return readFileSync(join(SAMPLES, name), 'utf8');
}

interface Result {
  readonly config: Config;
  readonly yaml: string;
  /** `LINE kind: text`. */
  readonly said: readonly string[];
}

function imports(
  given: string | readonly SourceFile[],
  files: Record<string, string> = {},
  env: Record<string, string> = {},
): Result {
  const sources = typeof given === 'string' ? [{ name: 'haproxy.cfg', text: given }] : given;
  const result = importHaproxy(sources, { env, readFile: path => files[path], listFiles: () => [] });
  assert.ok(result.ok, JSON.stringify(result));
  const { yaml, findings } = finishImport(result.imported, 'haproxy');
  const read = readConfig(yaml, 'causeway.yaml');
  assert.ok(read.ok, `${JSON.stringify(read)}\n${yaml}`);
  return {
    config: read.config,
    yaml,
    said: findings.map(({ place, kind, text }) => `${place.line} ${kind}: ${text}`),
  };
}

function faultsOf(text: string): string[] {
  const result = importHaproxy([{ name: 'haproxy.cfg', text }], {
    env: {},
    readFile: () => undefined,
    listFiles: () => [],
  });
  assert.ok(!result.ok);
  return result.faults.map(({ place, text: fault }) => `${place.line}:${place.column}: ${fault}`);
}

function routesOf({ config }: Result): Record<string, string> {
  return Object.fromEntries(
    config.clusters.flatMap(({ name, routes }) =>
      routes.map(({ kind, hosts, pool }) => [
        `${name} ${kind}`,
        `${hosts.join(' ')} > ${pool.backends.map(({ text }) => text).join(' ')}`,
      ]),
    ),
  );
}

function says({ said }: Result, ...patterns: readonly RegExp[]): void {
  for (const pattern of patterns)
    assert.ok(
      said.some(line => pattern.test(line)),
      `${pattern}\n${said.join('\n')}`,
    );
}

function address(number: number): string {
  return number < 256 ? `192.0.2.${number}` : `10.0.${number >> 8}.${number & 255}`;
}

/** A frontend on 6443 and its backends. */
function frontend(rules: string, backends: readonly string[] = ['a', 'b']): string {
  const servers = backends.map((name, i) => `backend ${name}\n  server s ${address(i + 1)}:6443 check\n`);
  return `frontend f\n  bind :6443\n  tcp-request inspect-delay 5s\n${rules}\n${servers.join('')}`;
}

test('importHaproxy() reads the lab of three OpenShift clusters', () => {
  const result = imports(sample('linuxera.cfg'));
  assert.deepEqual(
    routesOf(result)['managed1 apps-https'],
    '*.apps.managed1.linuxera.lab > 192.168.125.33:443 192.168.125.34:443 192.168.125.35:443',
  );
  assert.deepEqual(
    result.config.clusters.map(({ name, routes }) => [name, ...routes.map(({ kind }) => kind)]),
    ['hub-cluster', 'managed1', 'managed2'].map(name => [name, 'api', 'apps-https', 'apps-http']),
  );
  assert.deepEqual(
    result.config.listen.map(({ on, only }) => [on, only]),
    [
      [':6443', ['api']],
      [':80', ['apps-http']],
      [':443', ['apps-https']],
    ],
  );
  const [{ pool }, { pool: https }, { pool: http }] = result.config.clusters[1].routes;
  assert.deepEqual([pool.balance, https.balance, http.balance], ['source', 'source', 'host']);
  assert.deepEqual([pool.health.check, pool.health.everyMs, http.health.check], ['tls', 1000, 'tcp']);
  const { timeouts, retries, limits } = result.config;
  assert.deepEqual(
    [timeouts.connectMs, timeouts.idleMs, retries, limits.connections],
    [10_000, undefined, 3, 4000],
  );
  says(
    result,
    /^13 warning: timeout client 1m cuts watches/,
    /^14 warning: timeout server 1m cuts watches/,
    /^31 warning: the password of the statistics page is in this file in plain text/,
    /^49 warning: .*unanchored.*x\.apps\.hub\.linuxera\.lab\.evil\.example/,
    /^61 warning: .*unanchored.*x\.apps\.hub\.linuxera\.lab\.evil\.example/,
    /^52 warning: .*hub\.linuxera\.lab and hub-cluster\.linuxera\.lab.*can never match/,
    /^97 warning: http-send-name-header Host .*breaks virtual hosts.*\(also lines 115, 133\)/,
    /not carried over: the statistics page/,
  );
  assert.ok(!result.yaml.includes('password') && !result.said.some(line => line.includes('admin:password')));
});

test("importHaproxy() reads HyperShift's shared ingress", () => {
  const result = imports(sample('hypershift.cfg'));
  assert.deepEqual(
    result.config.clusters.map(({ name, id, routes }) => [name, id, ...routes.map(({ kind }) => kind)]),
    [
      ['hc1', '11111111-6d2c-4d7b-9d5c-2f3f0a2f8f11', 'api', 'konnectivity', 'ignition', 'oauth'],
      ['hc2', undefined, 'api', 'konnectivity'],
      ['hc2-by-id', '22222222-6d2c-4d7b-9d5c-2f3f0a2f8f11', 'api'],
    ],
  );
  assert.deepEqual(result.config.clusters[2].routes[0].allow, ['127.0.0.0/8', '10.0.0.0/8']);
  assert.equal(result.config.timeouts.idleMs, 86_400_000);
  says(
    result,
    /^20 warning: accept-proxy believes a PROXY header from everyone/,
    /^49 warning: .*shadowed.*oauth-hc1/,
    /^64 warning: source balancing under konnectivity/,
    /^58 warning: no health checks/,
  );
});

test('importHaproxy() warns of ACLs on fc_pp_tlv, and reads them', () => {
  const result = imports(
    frontend(
      '  acl one fc_pp_tlv(0x20) -m str id-1\n  use_backend a if one\n  use_backend b if { fc_pp_unique_id -m str id-2 }',
    ),
  );
  assert.deepEqual(
    result.config.clusters.map(({ id }) => id),
    ['id-1', 'id-2'],
  );
  assert.deepEqual(result.config.listen[0].idTlv, [0x20, 0x05]);
  says(result, /^4 warning: an ACL on 'fc_pp_tlv\(0x20\) -m str id-1' .*loops in HAProxy 3\.0/);
});

test('importHaproxy() asks rules in their order', () => {
  const result = imports(
    frontend(
      `  use_backend a if { req.ssl_sni -i one.x.lab }
  use_backend b if { req.ssl_sni -i -m end .x.lab }
  use_backend a if { req.ssl_sni -i two.x.lab }
  default_backend c`,
      ['a', 'b', 'c'],
    ),
  );
  const routes = Object.values(routesOf(result)).toSorted();
  assert.deepEqual(routes, ['* > 192.0.2.3:6443', '*.x.lab > 192.0.2.2:6443', 'one.x.lab > 192.0.2.1:6443']);
  says(result, /^6 warning: .*shadowed: two\.x\.lab is already taken by the rule at haproxy\.cfg:5:3/);
});

test('importHaproxy() carries lists of clients over', () => {
  const gated = imports(
    frontend(
      '  tcp-request connection reject if !{ src 10.0.0.0/8 }\n  use_backend a if { req.ssl_sni api.x.lab }',
    ),
  );
  assert.deepEqual(gated.config.clusters[0].routes[0].allow, ['10.0.0.0/8']);
  const accepted = imports(
    frontend(
      '  tcp-request connection accept if { src 10.0.0.0/8 192.0.2.0/24 }\n  tcp-request connection reject\n  default_backend a',
    ),
  );
  assert.deepEqual(accepted.config.clusters[0].routes[0].allow, ['10.0.0.0/8', '192.0.2.0/24']);
  const denied = imports(
    frontend('  tcp-request connection reject if { src 10.0.0.0/8 }\n  default_backend a'),
  );
  says(denied, /^4 warning: .*becomes its opposite/);
  assert.deepEqual(denied.config.clusters[0].routes[0].allow?.slice(0, 3), [
    '128.0.0.0/1',
    '64.0.0.0/2',
    '32.0.0.0/3',
  ]);
  const expected = imports(
    frontend('  tcp-request connection expect-proxy layer4 if { src 10.0.0.0/8 }\n  default_backend a'),
  );
  assert.deepEqual(expected.config.listen[0].balancers, ['10.0.0.0/8']);
});

test('importHaproxy() reads files that the configuration names', () => {
  const files = { 'hosts.lst': '# ours\napi.x.lab\n  api.y.lab\n', 'all.map': 'api.z.lab b\n' };
  const result = imports(
    frontend(
      '  use_backend a if { req.ssl_sni -i -f hosts.lst }\n  use_backend %[req.ssl_sni,lower,map(all.map)]',
    ),
    files,
  );
  assert.deepEqual(Object.values(routesOf(result)).toSorted(), [
    'api.x.lab api.y.lab > 192.0.2.1:6443',
    'api.z.lab > 192.0.2.2:6443',
  ]);
  const missing = imports(frontend('  use_backend a if { req.ssl_sni -i -f none.lst }\n  default_backend b'));
  says(missing, /^4 not carried over: .*none\.lst/);
});

test('importHaproxy() takes backends that are named after hosts', () => {
  const text = frontend('  use_backend be_%[req.ssl_sni,lower]', ['be_api.x.lab', 'be_api.y.lab']);
  assert.deepEqual(Object.values(routesOf(imports(text))).toSorted(), [
    'api.x.lab > 192.0.2.1:6443',
    'api.y.lab > 192.0.2.2:6443',
  ]);
});

test('importHaproxy() joins several files, with variables of the environment', () => {
  const result = imports(
    [
      { name: '1.cfg', text: 'defaults\n  mode tcp\nfrontend f\n  bind "*:${PORT}"\n  default_backend b\n' },
      { name: '2.cfg', text: 'backend b\n  server s "${ADDRESS}:6443"\n' },
    ],
    {},
    { PORT: '7000' },
  );
  assert.equal(result.config.listen[0].on, ':7000');
  says(result, /warning: environment variable ADDRESS is not set/, /not carried over: server ':6443'/);
});

test('importHaproxy() turns a redirect of all HTTP into one of every cluster', () => {
  const result = imports(
    `${frontend('  use_backend a if { req.ssl_sni -i -m reg ^[^.]+\\.apps\\.x\\.lab$ }')}
frontend web
  mode http
  bind :80
  redirect scheme https code 301 if !{ ssl_fc }`,
  );
  const [{ routes }] = result.config.clusters;
  assert.deepEqual(
    routes.map(({ kind, redirect }) => [kind, redirect]),
    [
      ['apps-https', false],
      ['apps-http', true],
    ],
  );
});

test('importHaproxy() redirects no host that another cluster serves over HTTP', () => {
  const result = imports(`frontend apps
  bind :443
  default_backend b
backend b
  server s 192.0.2.2:443
frontend web
  mode http
  bind :80
  redirect scheme https
listen old
  mode http
  bind :8080
  server s 192.0.2.1:80`);
  const served = { 'b apps-https': '* > 192.0.2.2:443', 'old apps-http': '* > 192.0.2.1:80' };
  assert.deepEqual(routesOf(result), served);
  says(result, /not carried over: the redirect of 'b': \* is served over HTTP by 'old'/);
});

test('importHaproxy() leaves out what opens TLS, and says so', () => {
  const result = imports(`${frontend('  default_backend a')}
frontend tls
  bind :443 ssl crt /etc/x.pem
  default_backend b`);
  says(result, /not carried over: 'tls' opens TLS/);
  assert.deepEqual(
    result.config.listen.map(({ on }) => on),
    [':6443'],
  );
});

test('importHaproxy() keeps the pool of a port whose hosts nobody names', () => {
  const result = imports(`listen api
  bind :6443
  server a 192.0.2.1:6443 check
listen ingress
  bind :443
  server a 192.0.2.2:443 check
listen web
  bind :80
  server a 192.0.2.2 check`);
  const routes = routesOf(result);
  assert.deepEqual(Object.values(routes).toSorted(), [
    ' > 192.0.2.2:443',
    '* > 192.0.2.1:6443',
    '* > 192.0.2.2:80',
  ]);
  says(result, /^4 not carried over: every other host leads to 'ingress' .*add the hosts/);
});

test('importHaproxy() lists every directive that it does not carry over', () => {
  const result = imports(`global
  tune.bufsize 32768
peers all
  peer one 192.0.2.9:1024
${frontend('  default_backend a\n  stick-table type ip size 1m\n  dispatch 192.0.2.1:1\n  use_backend b if { req.len gt 5 }')}
backend unused
  server x 192.0.2.8:1`);
  says(
    result,
    /tune\.bufsize/,
    /not carried over: section 'peers all'/,
    /stick-table/,
    /'dispatch' has no counterpart/,
    /'use_backend b if \{ req\.len gt 5 \}'/,
    /backend 'unused'/,
  );
});

test('importHaproxy() says where a text cannot be read', () => {
  assert.match(faultsOf('server a 192.0.2.1:80')[0], /^1:1: 'server' stands outside a section/);
  assert.match(faultsOf('global\n  log "x')[0], /^2:7: this double quote is not closed/);
  assert.match(faultsOf('global\n  daemon\n')[0], /^1:1: has no frontend and no listen section/);
  assert.match(faultsOf('')[0], /^1:1: has no frontend/);
  assert.match(faultsOf('frontend f\n  bind :80\0\n')[0], /^2:11: has a NUL byte/);
});

test('importHaproxy() gives a file that can be read, whatever the directives', () => {
  const line = fc.constantFrom(
    'bind :443',
    'bind *:6443 accept-proxy',
    'bind :9440',
    'bind 127.0.0.1:1-3,:2',
    'mode http',
    'acl a req.ssl_sni -i API.x.lab',
    'acl a hdr(host) -m reg ^.*$',
    'acl b src 10.0.0.0/8 nonsense',
    'acl b fc_pp_tlv(0x20) -m str "odd id" id-1',
    'acl c req.ssl_sni -m end x.lab -i',
    'acl "" {',
    'use_backend f if a !b or c',
    'use_backend g unless a',
    'use_backend %[req.ssl_sni,map(x)]',
    'use_backend g if { req.ssl_sni 10.0.0.1 192.168.1.1.2 a..b }',
    'use_backend nowhere if }',
    'default_backend g',
    'default_backend f',
    'server s 192.0.2.1',
    'server s [2001:db8::1]:443 send-proxy check inter 0',
    'server s true:99999 backup weight 0',
    'server-template x 3 name.lab:443 check-sni "a b" check check-ssl',
    'balance uri',
    'option httpchk GET',
    'timeout client 99999999999999d',
    'retries -5',
    'tcp-request content reject if !a',
    'tcp-request content set-var(sess.x) var(sess.x)',
    'http-request redirect scheme https',
    '.if x',
    '.else',
  );
  const section = fc
    .tuple(
      fc.constantFrom(
        'frontend f',
        'backend g',
        'listen f',
        'defaults',
        'defaults d',
        'listen l from d',
        'global',
        'cache',
      ),
      fc.array(line, { maxLength: 8 }),
    )
    .map(([head, lines]) => `${head}\n  ${lines.join('\n  ')}\n`);
  fc.assert(
    fc.property(fc.array(section, { minLength: 1, maxLength: 6 }), sections => {
      const text = `frontend start\n  bind :7443\n  default_backend g\n${sections.join('')}`;
      const { said } = imports(text, { x: 'api.x.lab g\nodd\n*.y.lab f\n' });
      // Our reader is the last resort.
      assert.deepEqual(
        said.filter(line => /not carried over: (?:route|listener) '|causeway\.yaml/.test(line)),
        [],
      );
    }),
    { numRuns: 400 },
  );
});

test('importHaproxy() reads a thousand clusters in a moment', () => {
  const names = Array.from({ length: 1000 }, (_, i) => `c${i}`);
  const text = frontend(
    names.map(name => `  use_backend ${name} if { req.ssl_sni -i api.${name}.lab }`).join('\n'),
    names,
  );
  assert.equal(imports(text).config.clusters.length, 1000);
});

test('importHaproxy() knows rules that can never match', () => {
  const result = imports(`frontend web
  mode http
  bind :80
  use_backend a if { req.ssl_sni -i api.x.lab }
  use_backend a if { hdr(host) -i www.x.lab WWW.y.lab }
  use_backend b if { hdr(host) WWW.z.lab }
backend a
  mode http
  server s 192.0.2.1:80 check
backend b
  mode http
  server s 192.0.2.2:80 check`);
  says(result, /^4 warning: .*can never match: there is no SNI/, /^6 warning: .*capitals and no -i/);
  assert.deepEqual(Object.values(routesOf(result)), ['www.x.lab www.y.lab > 192.0.2.1:80']);
});

test('importHaproxy() reads wildcards as keys of a map', () => {
  const result = imports(
    frontend('  use_backend %[req.ssl_sni,lower,rtrim(.),regsub(^[^.]+,*),map_str(all.map)]'),
    { 'all.map': '*.apps.x.lab a\n*.apps.y.lab b\nexact.z.lab b\n' },
  );
  assert.deepEqual(Object.values(routesOf(result)).toSorted(), [
    '*.apps.x.lab > 192.0.2.1:6443',
    '*.apps.y.lab > 192.0.2.2:6443',
  ]);
});

test('importHaproxy() joins the families of one port', () => {
  const text = frontend('  default_backend a').replace(
    'bind :6443',
    'bind 0.0.0.0:6443\n  bind [::]:6443 v6only',
  );
  assert.deepEqual(
    imports(text).config.listen.map(({ on }) => on),
    [':6443'],
  );
});

test('importHaproxy() notices a server that is the same HAProxy', () => {
  const result = imports(`frontend sni
  bind :443
  tcp-request inspect-delay 5s
  use_backend loop if { req.ssl_sni -i www.x.lab }
backend loop
  server s 127.0.0.1:8443 send-proxy-v2
frontend opened
  bind 127.0.0.1:8443 ssl crt /x.pem accept-proxy
  default_backend loop`);
  says(result, /^5 warning: 127\.0\.0\.1:8443 of 'loop' is 'opened' of this HAProxy/);
});
