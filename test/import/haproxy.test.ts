// `causeway import haproxy`: the original in a real HAProxy and its import in our gateway lead each connection to the same
// backend, except where a finding says otherwise.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { finishImport } from '../../src/import/finish-import.ts';
import { importHaproxy } from '../../src/import/haproxy/import-haproxy.ts';
import type { ImportFinding } from '../../src/import/imported.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startHaproxy } from '../../testbed/start-haproxy.ts';
import { proxyV2 } from '../features/given.ts';
import { type BothWays, bothWays, type Original } from './both-ways.ts';

const SAMPLES = join(import.meta.dirname, '../../src/import/samples');
const SEED = 14;
/** Each is another set of rules. */
const RANDOM_SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];
const HOSTS_PER_LISTENER = 150;
const skip = missingPrograms('haproxy');
const skip30 = missingPrograms('haproxy', 'debootstrap');

function sample(name: string): string {
  return readFileSync(join(SAMPLES, name), 'utf8');
}

interface Import {
  readonly yaml: string;
  readonly findings: readonly ImportFinding[];
}

function imported(name: string): Import {
  return importText(name, sample(name));
}

function importText(name: string, text: string): Import {
  const result = importHaproxy([{ name, text }], {
    env: {},
    readFile: path => sample(path),
    listFiles: () => [],
  });
  assert.ok(result.ok);
  return finishImport(result.imported, 'haproxy');
}

/** Without checks: our backends do not speak TLS. Every server answers with the name of its backend. */
function originalOf(name: string, ports: readonly number[]): Original {
  const text = sample(name)
    .replaceAll('"${GREEN_API-192.0.2.20}:6443"', '192.0.2.20:6443')
    .replace(/rest 3 rest\.example\.net:443/, 'rest 3 192.0.2.99:443')
    .replace(/^(\s*server.*?) check\b.*$/gm, '$1')
    .replace(/maxconn +\d+/g, 'maxconn 500')
    .replace(/\b(hosts|ends|patterns)\.map/g, (_, map) => join(SAMPLES, `${map}.map`));
  return rewritable(text, ports);
}

function rewritable(text: string, ports: readonly number[]): Original {
  const servers: Record<string, string> = {};
  let section = '';
  for (const line of text.split('\n')) {
    section = /^(?:backend|listen) (\S+)/.exec(line)?.[1] ?? section;
    const address = /^\s*server(?:-template)? \S+ (?:\d+ )?(\S+:\d+)/.exec(line)?.[1];
    if (address !== undefined) servers[address] ??= section;
  }
  return {
    text,
    servers,
    ports,
    listenAt: (config, port, local) =>
      config
        .replace(new RegExp(`(bind .*?)[^\\s,]*:${port}\\b`), (_, before) => `${before}127.0.0.1:${local}`)
        .replaceAll(`dst_port ${port}`, `dst_port ${local}`),
  };
}

/** Names that rules treat as theirs, nearly theirs, and not theirs. */
function hostsAround(yaml: string): fc.Arbitrary<string> {
  const known = [
    ...new Set(
      [...yaml.matchAll(/(?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+){2,}(?=[\],"])/g)].map(([host]) => host),
    ),
  ].filter(host => /[a-z]$/.test(host));
  const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$/);
  const host = fc.tuple(fc.constantFrom(...known), label).map(([one, front]) => one.replace(/^\*/, front));
  return fc.oneof(
    { weight: 4, arbitrary: host },
    host.map(one => one.toUpperCase()),
    fc.tuple(label, host).map(([front, one]) => `${front}.${one}`),
    host.map(one => `${one}.evil.example`),
    host.map(one => `not${one}`),
    fc.tuple(host, fc.nat()).map(([one, at]) => replaceDot(one, at)),
    host.map(one => one.slice(one.indexOf('.') + 1)),
    label.map(one => `tenant-${one}.example.com`),
    fc.tuple(label, label).map(labels => labels.join('.')),
    fc.constant(''),
  );
}

function replaceDot(host: string, seed: number): string {
  const dots = [...host.matchAll(/\./g)].map(({ index }) => index);
  const at = dots[seed % dots.length];
  return `${host.slice(0, at)}x${host.slice(at + 1)}`;
}

/** Asks both about generated hosts. Differences must be those that findings announce. */
async function compare(
  both: BothWays,
  ports: readonly { readonly port: number; readonly protocol: 'tls' | 'http' }[],
  { yaml, findings }: Import,
): Promise<void> {
  const announced = (host: string) =>
    findings.some(finding => finding.differsFor?.(host.toLowerCase()) === true);
  const hosts = new Set(fc.sample(hostsAround(yaml), { numRuns: HOSTS_PER_LISTENER, seed: SEED }));
  let served = 0;
  const differed = new Set<string>();
  for (const host of hosts) {
    for (const { port, protocol } of ports) {
      const { original, imported } = await both[protocol](port, host);
      if (imported !== undefined) served++;
      if (original === imported) continue;
      assert.ok(announced(host), `${protocol} ${host} on ${port}: HAProxy ${original}, causeway ${imported}`);
      differed.add(host);
    }
  }
  assert.ok(served >= 10, `only ${served} connections were served`);
  assert.deepEqual(
    [...hosts].filter(host => announced(host) && !differed.has(host)),
    [],
    'announced, and yet the same',
  );
}

describe('causeway import haproxy: each connection reaches the same backend', () => {
  for (const version of [undefined, '3.0'] as const) {
    const where = `in HAProxy ${version ?? '2.6'}`;
    test(`three OpenShift clusters ${where}`, { skip: version === undefined ? skip : skip30 }, async () => {
      const ours = imported('linuxera.cfg');
      const original = originalOf('linuxera.cfg', [6443, 80, 443, 50000]);
      await using both = await bothWays(original, ours.yaml, config =>
        startHaproxy({ config, ...(version !== undefined && { version }) }),
      );
      await compare(
        both,
        [
          { port: 6443, protocol: 'tls' },
          { port: 443, protocol: 'tls' },
          { port: 80, protocol: 'http' },
        ],
        ours,
      );
      assert.deepEqual(await both.tls(443, 'x.apps.hub.linuxera.lab.evil.example'), {
        original: 'be_ingress_hub_443',
        imported: undefined,
      });
    });
  }

  test('maps and expressions', { skip }, async () => {
    const ours = imported('maps.cfg');
    const original = originalOf('maps.cfg', [443, 80]);
    const yaml = ours.yaml.replace('rest.example.net:443', '192.0.2.99:443');
    await using both = await bothWays(original, yaml, config => startHaproxy({ config }));
    await compare(
      both,
      [
        { port: 443, protocol: 'tls' },
        { port: 80, protocol: 'http' },
      ],
      ours,
    );
  });

  test('rules that are shadowed, negated, by port and by client', { skip }, async () => {
    const ours = imported('rules.cfg');
    const original = originalOf('rules.cfg', [443, 6443, 9000]);
    await using both = await bothWays(original, ours.yaml, config => startHaproxy({ config }));
    await compare(
      both,
      [
        { port: 443, protocol: 'tls' },
        { port: 6443, protocol: 'tls' },
      ],
      // The third listener is below.
      { ...ours, findings: ours.findings.filter(({ text }) => !text.includes('9000')) },
    );
    for (const host of ['any.example', ''])
      assert.deepEqual(await both.tls(9000, host), { original: 'direct', imported: 'direct' }, host);
    const refused = 'one.lab.example.com';
    assert.deepEqual(await both.tls(9000, refused), { original: 'direct', imported: undefined });
    assert.ok(ours.findings.some(({ text, differsFor }) => text.includes('9000') && differsFor?.(refused)));
  });

  test("HyperShift's shared ingress, by id and by SNI", { skip: skip30 }, async () => {
    const ours = imported('hypershift.cfg');
    const original = originalOf('hypershift.cfg', [6443, 8443, 9444]);
    await using both = await bothWays(original, ours.yaml, config =>
      startHaproxy({ config, version: '3.0' }),
    );
    await compare(both, [{ port: 8443, protocol: 'tls' }], ours);
    for (const [id, backend] of [
      ['11111111-6d2c-4d7b-9d5c-2f3f0a2f8f11', 'clusters-hc1-kube-apiserver'],
      ['22222222-6d2c-4d7b-9d5c-2f3f0a2f8f11', 'clusters-hc2-kube-apiserver'],
      ['33333333-6d2c-4d7b-9d5c-2f3f0a2f8f11', undefined],
    ] as const) {
      for (const host of ['', 'kubernetes.default.svc']) {
        const header = proxyV2({ source: '127.0.0.1', id });
        assert.deepEqual(
          await both.tls(6443, host, header),
          { original: backend, imported: backend },
          `${id} ${host}`,
        );
      }
    }
  });

  test('a final dot and a port in Host are no part of the name here', { skip }, async () => {
    const ours = imported('linuxera.cfg');
    const original = originalOf('linuxera.cfg', [6443, 80, 443, 50000]);
    await using both = await bothWays(original, ours.yaml, config => startHaproxy({ config }));
    const name = 'be_api_managed1_6443';
    assert.deepEqual(await both.tls(6443, 'api.managed1.linuxera.lab.'), {
      original: undefined,
      imported: name,
    });
    const { imported: web } = await both.http(80, 'x.apps.managed1.linuxera.lab:80');
    assert.equal(web, 'be_ingress_managed1_80');
  });

  for (const seed of RANDOM_SEEDS) {
    test(`rules at random, seed ${seed}`, { skip }, async () => {
      const [text] = fc.sample(randomConfig, { numRuns: 1, seed });
      const ours = importText('random.cfg', text);
      await using both = await bothWays(rewritable(text, [443]), ours.yaml, config =>
        startHaproxy({ config }),
      );
      const hosts = fc.sample(randomHost, { numRuns: 60, seed });
      for (const host of new Set(hosts)) {
        const { original, imported } = await both.tls(443, host);
        const isAnnounced = ours.findings.some(({ differsFor }) => differsFor?.(host) === true);
        assert.ok(
          original === imported || isAnnounced,
          `${host || 'no SNI'}: HAProxy ${original}, causeway ${imported}\n${text}\n${ours.yaml}`,
        );
      }
    });
  }
});

const domain = fc.constantFrom('x.lab', 'apps.x.lab', 'y.lab', 'apps.y.lab');
const randomHost = fc.oneof(
  fc.tuple(fc.constantFrom('api', 'a', 'b', 'sample'), domain).map(labels => labels.join('.')),
  fc.tuple(fc.constantFrom('a.b', 'b.a'), domain).map(labels => labels.join('.')),
  domain,
  fc.constantFrom('', 'other.example', 'api.x.lab.evil.example', 'notx.lab'),
);
const named = fc.tuple(fc.constantFrom('api', 'a', 'b'), domain).map(labels => labels.join('.'));
const escaped = (text: string) => text.replaceAll('.', '\\.');
const matcher = fc.oneof(
  named.map(host => `req.ssl_sni -i ${host}`),
  fc.tuple(named, named).map(hosts => `req.ssl_sni -i ${hosts.join(' ')}`),
  domain.map(one => `req.ssl_sni -i -m end .${one}`),
  domain.map(one => `req.ssl_sni,lower -m reg ^[^.]+\\.${escaped(one)}$`),
  named.map(host => `req.ssl_sni -m reg -i ^(${escaped(host)}|b\\.y\\.lab)$`),
  fc.constantFrom(
    'req.ssl_sni -m found',
    'src 127.0.0.0/8',
    'src 198.51.100.0/24',
    'dst_port 443',
    'always_true',
  ),
);
const literal = fc
  .tuple(
    fc.boolean(),
    fc.oneof(
      fc.constantFrom('one', 'two'),
      matcher.map(text => `{ ${text} }`),
    ),
  )
  .map(([isNegated, text]) => `${isNegated ? '!' : ''}${text}`);
const condition = fc
  .array(fc.array(literal, { minLength: 1, maxLength: 2 }), { minLength: 1, maxLength: 2 })
  .map(terms => terms.map(term => term.join(' ')).join(' or '));
const when = fc.tuple(fc.constantFrom('if', 'if', 'if', 'unless'), condition).map(words => words.join(' '));
const randomConfig = fc
  .record({
    acls: fc.tuple(matcher, matcher, matcher),
    gates: fc.array(when, { maxLength: 1 }),
    rules: fc.array(fc.tuple(fc.nat(3), when), { minLength: 2, maxLength: 6 }),
    rest: fc.option(fc.nat(3)),
  })
  .map(
    ({ acls, gates, rules, rest }) => `defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
frontend tls
    bind :443
    tcp-request inspect-delay 5s
    acl one ${acls[0]}
    acl two ${acls[1]}
    acl two ${acls[2]}
${gates.map(gate => `    tcp-request content reject ${gate}\n`).join('')}    tcp-request content accept if { req_ssl_hello_type 1 }
${rules.map(([backend, rule]) => `    use_backend be${backend} ${rule}\n`).join('')}${rest === null ? '' : `    default_backend be${rest}\n`}
${[0, 1, 2, 3].map(i => `backend be${i}\n    server s 192.0.2.${i + 1}:443\n`).join('')}`,
  );
