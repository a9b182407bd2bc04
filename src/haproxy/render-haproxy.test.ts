import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../config/read-config.ts';
import { readHaproxyVersion } from './haproxy-version.ts';
import { renderHaproxy } from './render-haproxy.ts';

function render(yaml: string, version = '3.0'): string {
  const read = readConfig(yaml, 'causeway.yaml');
  if (!read.ok) assert.fail(JSON.stringify(read.mistakes));
  return renderHaproxy(read.config, 'some/causeway.yaml', readHaproxyVersion(version) ?? assert.fail());
}

/** The lines of one section, without indentation. */
function section(text: string, head: string): readonly string[] {
  const lines = text.split('\n');
  const start = lines.indexOf(head);
  assert.notEqual(start, -1, `${head} is not in\n${text}`);
  const length = lines.slice(start + 1).findIndex(line => /^\S/.test(line));
  return lines
    .slice(start + 1, length === -1 ? undefined : start + 1 + length)
    .map(line => line.trim())
    .filter(line => line !== '');
}

test('renderHaproxy() writes what a person would write', () => {
  const text = render(`listen: [":6443"]
clusters:
  - name: managed1
    api: { hosts: [api.managed1.lab], backends: [192.0.2.30:6443], health: { check: none } }
    apps:
      hosts: ["*.apps.managed1.lab"]
      https: { backends: [192.0.2.33:443, "[2001:db8::33]:443"] }`);
  assert.equal(
    text,
    `# causeway.yaml for HAProxy 2.6 or newer, written by causeway render haproxy.
# Check it with: haproxy -c -f FILE

global
    log stdout format raw daemon info
    spread-checks 10
    hard-stop-after 10m

defaults
    mode tcp
    log global
    option tcplog
    option dontlognull

    timeout connect 3s
    timeout http-request 5s
    # Watches are silent for minutes, so nothing is cut for being idle.
    timeout client 24d
    timeout server 24d
    timeout client-fin 1m
    timeout server-fin 1m

    retries 3
    option redispatch 1

    option clitcpka
    clitcpka-idle 30s
    clitcpka-intvl 30s
    option srvtcpka
    srvtcpka-idle 30s
    srvtcpka-intvl 30s

frontend listen_6443
    bind 0.0.0.0:6443 tcp-ut 5m
    bind [::]:6443 v6only tcp-ut 5m

    tcp-request inspect-delay 5s
    tcp-request content set-var(txn.host) req.ssl_sni,lower,rtrim(.) if { req.ssl_sni -m found }
    tcp-request content set-var(txn.wildcard) var(txn.host),'regsub("^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?[.]","*.")' if { var(txn.host) -m found }
    acl is_tls req.ssl_hello_type 1
    tcp-request content reject unless is_tls

    # managed1
    use_backend be_managed1_api if { var(txn.host) -m str api.managed1.lab }

    # Wildcards stand for one label, and come after exact hosts.
    # managed1
    use_backend be_managed1_apps-https if { var(txn.wildcard) -m str *.apps.managed1.lab }

    default_backend refused

# Cluster managed1
backend be_managed1_api
    default-server tcp-ut 5m
    server s1 192.0.2.30:6443

backend be_managed1_apps-https
    balance source
    hash-type consistent
    timeout check 2s
    default-server check check-ssl verify none inter 5s rise 2 fall 3 tcp-ut 5m
    server s1 192.0.2.33:443
    server s2 [2001:db8::33]:443
    # While every server is down, all of them are tried.
    option allbackups
    server s1-anyway 192.0.2.33:443 no-check backup
    server s2-anyway [2001:db8::33]:443 no-check backup

# What nobody claims.
backend refused
    tcp-request content reject
`,
  );
});

const TWO = `clusters:
  - name: a
    id: id-a
    api: { hosts: [api.x.test], backends: ["192.0.2.1:1"] }
    routes:
      own: { hosts: [api.x.test], backends: ["192.0.2.2:1"], alpn: [one, "t.o"] }
  - name: b
    apps: { hosts: ["*.x.test", "*"], https: ["192.0.2.3:1"], http: ["192.0.2.4:1"] }`;

const rules = (text: string, head: string) =>
  section(text, head).filter(line => /^(?:use_backend|default_backend|acl alpn)/.test(line));

test('renderHaproxy() sends a host by ALPN first, exact before wildcard before *', () => {
  assert.deepEqual(rules(render(`listen: [":1"]\n${TWO}`), 'frontend listen_1'), [
    String.raw`acl alpn_a_own req.ssl_alpn -m reg '(^|,)(one|t\.o)(,|$)'`,
    'use_backend http_1 if is_http',
    'use_backend be_a_own if { var(txn.host) -m str api.x.test } alpn_a_own',
    'use_backend be_a_api if { var(txn.host) -m str api.x.test }',
    'use_backend be_b_apps-https if { var(txn.wildcard) -m str *.x.test }',
    'use_backend be_b_apps-https if is_tls',
    'default_backend refused',
  ]);
});

test('renderHaproxy() refuses a host that only leaves out, before a wildcard would take it', () => {
  const text = render(`listen: [{ on: ":1", only: [apps-https] }]\n${TWO}`);
  assert.deepEqual(rules(text, 'frontend listen_1'), [
    'use_backend refused if { var(txn.host) -m str api.x.test }',
    'use_backend be_b_apps-https if { var(txn.wildcard) -m str *.x.test }',
    'use_backend be_b_apps-https if is_tls',
    'default_backend refused',
  ]);
});

test('renderHaproxy() reads an id once, and refuses unknown ones', () => {
  const agents = `listen: [{ on: ":1", agents: [192.0.2.0/24], idTlv: [0x20, 0x05] }]\n${TWO}`;
  const lines = section(render(agents), 'frontend listen_1');
  assert.deepEqual(
    lines.filter(line => line.includes('sess.id')),
    [
      'tcp-request content set-var(sess.id,ifnotexists) fc_pp_tlv(0x20) if is_agent',
      'tcp-request content set-var(sess.id,ifnotexists) fc_pp_tlv(0x05) if is_agent',
      'tcp-request content reject if is_http { var(sess.id) -m found }',
      'acl known_id var(sess.id) -m str id-a',
      'tcp-request content reject if { var(sess.id) -m found } !known_id',
      'acl id_a var(sess.id) -m str id-a',
    ],
  );
  assert.ok(lines.includes('use_backend be_a_own if id_a { var(txn.host) -m str api.x.test } alpn_a_own'));
  assert.ok(lines.includes('use_backend be_a_api if id_a'));
  const old = section(render(agents, '2.6'), 'frontend listen_1');
  assert.deepEqual(
    old.filter(line => line.includes('fc_pp')),
    ['tcp-request content set-var(sess.id,ifnotexists) fc_pp_unique_id if is_agent'],
  );
});

test('renderHaproxy() puts allow lists and limits into the backends', () => {
  const text = render(`listen: [":1"]
clusters:
  - name: a
    allow: [192.0.2.0/24]
    limits: { connections: 5, perSource: 2, newPerSecond: 3 }
    api: { hosts: [a.test], backends: ["192.0.2.1:1"], allow: [192.0.2.1/32] }
    konnectivity: { hosts: [k.test], backends: [], allow: [] }
    apps: { hosts: [b.test], http: redirect }`);
  assert.deepEqual(section(text, 'backend be_a_api').slice(0, 9), [
    'acl allowed src 192.0.2.0/24',
    'tcp-request content reject unless allowed',
    'acl allowed_here src 192.0.2.1/32',
    'tcp-request content reject unless allowed_here',
    'tcp-request content track-sc1 str(a) table limits_clusters',
    'tcp-request content reject if { sc1_conn_cur gt 5 }',
    'tcp-request content reject if { sc1_conn_rate gt 3 }',
    'tcp-request content track-sc2 src table limits_a_sources',
    'tcp-request content reject if { sc2_conn_cur gt 2 }',
  ]);
  assert.deepEqual(section(text, 'backend be_a_konnectivity').slice(0, 2), [
    '# Nobody is allowed.',
    'tcp-request content reject',
  ]);
  assert.deepEqual(section(text, 'backend be_a_apps-http').slice(0, 3), [
    'mode http',
    'acl allowed src 192.0.2.0/24',
    'http-request deny deny_status 403 unless allowed',
  ]);
});
