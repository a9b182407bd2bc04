import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ascii } from './hello.samples.ts';
import {
  connectName,
  type HttpHead,
  hostOf,
  MAX_HTTP_HEAD,
  parseHttpHead,
  requestHost,
} from './http-head.ts';
import type { Parsed } from './parsed.ts';

function parse(text: string): Parsed<HttpHead> {
  return parseHttpHead(ascii(text), 0, text.length);
}

function head(text: string): HttpHead {
  const answer = parse(text);
  assert.ok(answer.kind === 'found', JSON.stringify(answer));
  return answer.value;
}

test('parseHttpHead() reads request line and fields, and ends at the blank line', () => {
  const text =
    'GET /a?b=%20c HTTP/1.0\r\nHOST: a.example:80\r\nx-tab:\t a\tb \t\r\nEmpty:\r\nhost:\xa0\xff\r\n\r\n';
  assert.deepEqual(head(`${text}body\n\0`), {
    method: 'GET',
    target: '/a?b=%20c',
    version: '1.0',
    headers: [
      ['host', 'a.example:80'],
      ['x-tab', 'a\tb'],
      ['empty', ''],
      ['host', '\xa0\xff'],
    ],
    end: text.length,
  });
});

test('parseHttpHead() names what is wrong, without waiting for the blank line', () => {
  const cases: readonly (readonly [reason: string, text: string])[] = [
    ['method', '\r\n'],
    ['method', ' GET / HTTP/1.1\r\n'],
    ['method', 'G(T / HTTP/1.1\r\n'],
    ['method', 'GET\r\n'],
    ['method', 'GET\t/ HTTP/1.1\r\n'],
    ['request-line', 'GET \r\n'],
    ['request-line', 'GET /\r\n'],
    ['request-line', 'GET HTTP/1.1\r\n'],
    ['request-line', 'GET  HTTP/1.1\r\n'],
    ['version', 'GET / HTTP/1.2\r\n'],
    ['version', 'GET / HTTP/2.0\r\n'],
    ['version', 'GET / http/1.1\r\n'],
    ['version', 'GET / HTTP/1.1 \r\n'],
    ['version', 'GET / HTTP/1.10\r\n'],
    ['version', 'GET /index.html\r\n'],
    ['target', 'GET  / HTTP/1.1\r\n'],
    ['target', 'GET /  HTTP/1.1\r\n'],
    ['target', 'GET /a b HTTP/1.1\r\n'],
    ['target', 'GET /\xe4 HTTP/1.1\r\n'],
    ['bare-line-feed', 'GET / HTTP/1.1\n'],
    ['bare-line-feed', 'GET / HTTP/1.1\r\na: b\n'],
    ['bare-line-feed', 'GET / HTTP/1.1\r\n\n'],
    ['bare-carriage-return', 'GET / HTTP/1.1\ra'],
    ['bare-carriage-return', 'GET / HTTP/1.1\r\na: b\rc: d\r\n'],
    ['bare-carriage-return', 'GET / HTTP/1.1\r\r\n'],
    ['control-character', 'GET / HTTP/1.1\r\na: \0'],
    ['control-character', 'GET / HTTP/1.1\r\na: \x7f'],
    ['control-character', 'GET /\x1b'],
    ['folded-line', 'GET / HTTP/1.1\r\na: b\r\n c\r\n'],
    ['folded-line', 'GET / HTTP/1.1\r\n\ta: b\r\n'],
    ['field-name', 'GET / HTTP/1.1\r\na : b\r\n'],
    ['field-name', 'GET / HTTP/1.1\r\n: b\r\n'],
    ['field-name', 'GET / HTTP/1.1\r\na\r\n'],
    ['field-name', 'GET / HTTP/1.1\r\na\xe4: b\r\n'],
    ['field-name', 'GET / HTTP/1.1\r\na b: c\r\n'],
  ];
  for (const [reason, text] of cases)
    assert.deepEqual(parse(text), { kind: 'reject', reason }, JSON.stringify(text));
});

test('parseHttpHead() accepts heads of up to 16 KiB including the blank line and not a byte more', () => {
  const around = 'GET / HTTP/1.1\r\na: \r\n\r\n'.length;
  const most = `GET / HTTP/1.1\r\na: ${'x'.repeat(MAX_HTTP_HEAD - around)}\r\n\r\n`;
  assert.equal(head(`${most}body`).end, MAX_HTTP_HEAD);
  const longer = most.replace('xx', 'xxx');
  assert.deepEqual(parse(longer), { kind: 'reject', reason: 'head-too-long' });
  assert.equal(parse(longer.slice(0, MAX_HTTP_HEAD - 1)).kind, 'incomplete');
  assert.equal(parse(longer.slice(0, MAX_HTTP_HEAD)).kind, 'reject');
});

test('parseHttpHead() reads back any valid head', () => {
  const token = fc.stringMatching(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/, { maxLength: 12 });
  const value = fc.stringMatching(/^[!-~\x80-\xff]([\t -~\x80-\xff]*[!-~\x80-\xff])?$/, { maxLength: 20 });
  const space = fc.stringMatching(/^[ \t]*$/, { maxLength: 3 });
  const fields = fc.array(fc.tuple(token, fc.oneof(value, fc.constant('')), space), { maxLength: 5 });
  const target = fc.stringMatching(/^[!-~]+$/, { maxLength: 20 });
  fc.assert(
    fc.property(token, target, fc.constantFrom('1.0', '1.1'), fields, (method, target, version, fields) => {
      const lines = fields.map(([name, value, space]) => `${name}:${space}${value}${space}\r\n`);
      const text = `${method} ${target} HTTP/${version}\r\n${lines.join('')}\r\n`;
      const headers = fields.map(([name, value]) => [name.toLowerCase(), value]);
      assert.deepEqual(parse(text), {
        kind: 'found',
        value: { method, target, version, headers, end: text.length },
      });
    }),
    { numRuns: 500 },
  );
});

test('connectName() takes the name from the authority', () => {
  const cases: Readonly<Record<string, string | undefined>> = {
    'kube:6443': 'kube',
    kube: 'kube',
    'API.Managed1.Linuxera.LAB.:443': 'api.managed1.linuxera.lab',
    '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11:6443': '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11',
    'under_score.example:1': 'under_score.example',
    '10.0.0.1:443': '10.0.0.1',
    '[2001:DB8::1]:443': '2001:db8::1',
    '[::1]': '::1',
    [`${'a'.repeat(253)}:1`]: 'a'.repeat(253),
    [`${'a'.repeat(254)}:1`]: undefined,
    'kube:': undefined,
    'kube:0': undefined,
    'kube:65536': undefined,
    'kube:000443': undefined,
    'kube:x': undefined,
    ':443': undefined,
    '.:443': undefined,
    '/': undefined,
    '*': undefined,
    'user@kube:443': undefined,
    'http://kube/': undefined,
    'k\xe4se:443': undefined,
    '::1': undefined,
    '[::1': undefined,
    '[::1]x': undefined,
    '[::1]:0': undefined,
    '[10.0.0.1]:443': undefined,
    '[fe80::1%25eth0]:443': undefined,
    '[]:443': undefined,
  };
  for (const [target, name] of Object.entries(cases)) {
    const asked = { method: 'CONNECT', target, version: '1.1', headers: [], end: 0 } as const;
    assert.equal(connectName(asked), name, target);
  }
});

/** The name requested with these destinations in the header. */
function ask(...destinations: readonly string[]): string | undefined {
  const fields = destinations.map(destination => `X-Gardener-Destination: ${destination}\r\n`);
  return connectName(head(`CONNECT kube:443 HTTP/1.1\r\nHost: kube:443\r\n${fields.join('')}\r\n`));
}

test("connectName() uses only Gardener's header if it is present", () => {
  assert.equal(ask(), 'kube');
  assert.equal(
    ask('outbound|443||kube-apiserver.shoot--a.svc.cluster.local'),
    'kube-apiserver.shoot--a.svc.cluster.local',
  );
  assert.equal(ask('outbound|8443||KUBE.Example.'), 'kube.example');
  const malformed = [
    '',
    'x',
    'inbound|443||x',
    'outbound|443|subset|x',
    'outbound|443||',
    'outbound|||x',
    'outbound|0||x',
  ];
  for (const destination of [...malformed, 'outbound|443||x|y', 'outbound|443||a b', 'Outbound|443||x']) {
    assert.equal(ask(destination), undefined, destination);
  }
  assert.equal(ask('outbound|443||x', 'outbound|443||x'), undefined);
});

test('requestHost() takes the host from Host, in lower case, without port and trailing dot', () => {
  for (const [host, expected] of [
    ['a.test', 'a.test'],
    ['A.Test.', 'a.test'],
    ['a.test:80', 'a.test'],
    ['a.test:65535', 'a.test'],
    ['192.0.2.1:80', '192.0.2.1'],
    ['[2001:DB8::1]:80', '2001:db8::1'],
    ['x_y.test', 'x_y.test'],
  ]) {
    assert.equal(requestHost(host, '/'), expected, host);
    assert.equal(requestHost(host, '*'), expected, host);
    assert.equal(requestHost(host, `http://${host}/a`), expected, host);
    assert.equal(requestHost(host, `HTTP://${host.toUpperCase()}`), expected, host);
  }
});

test('requestHost() refuses anything else', () => {
  for (const host of [
    '',
    '.',
    'a b',
    'a,b',
    'a\tb',
    'a/b',
    'user@a.test',
    'a.test:',
    'a.test:0',
    'a.test:65536',
    'a.test:8x',
    'a.test:80:80',
    '[::1',
    '::1',
    '[a.test]',
    '\xe4.test',
    `${'a'.repeat(254)}`,
  ])
    assert.equal(requestHost(host, '/'), undefined, host);
});

test('requestHost() refuses a target with another host, and one that is not a path', () => {
  for (const target of [
    'http://b.test/',
    'http://a.test:80/',
    'http://user@a.test/',
    'http://a.test.evil/',
    'https://a.test/',
    'ftp://a.test/',
    'a.test',
    'a.test:80',
    '',
    'x',
  ])
    assert.equal(requestHost('a.test', target), undefined, target);
});

test('hostOf() requires exactly one Host', () => {
  const of = (...lines: readonly string[]) =>
    hostOf(head(`${['GET / HTTP/1.1', ...lines].join('\r\n')}\r\n\r\n`));
  assert.equal(of('Host: a.test'), 'a.test');
  assert.equal(of('X: y', 'hOST:\t a.test '), 'a.test');
  assert.equal(of('X: y'), undefined);
  assert.equal(of('Host: a.test', 'host: a.test'), undefined);
});
