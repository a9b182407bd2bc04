// HTTP/1 on a scripted reactor: request, exchange, and what is left of them. Feature tests are in test/features/http*.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { REFUSED } from '../io/reactor.ts';
import { leaveAddresses } from './keep-backend.ts';
import { ScriptedPath, type ScriptedPathOptions, scriptedTest } from './scripted-path.samples.ts';

const clusters = ['a', 'b', 'p', 'r'].map((name, index) =>
  sampleCluster(name, {
    routes: [
      sampleRoute({
        kind: 'apps-http',
        hosts: [`${name}.lab`],
        backends: [`192.0.2.${index + 1}:80`],
        proxyProtocol: name === 'p' ? 'v1' : 'none',
        redirect: name === 'r',
      }),
    ],
  }),
);

const get = (host: string, ...lines: string[]) =>
  [`GET / HTTP/1.1`, `Host: ${host}`, ...lines, '', ''].join('\r\n');
const post = (host: string, body: string) =>
  ['POST / HTTP/1.1', `Host: ${host}`, `Content-Length: ${body.length}`, '', body].join('\r\n');
const ok = (body: string, ...lines: string[]) =>
  ['HTTP/1.1 200 OK', `Content-Length: ${body.length}`, ...lines, '', body].join('\r\n');

function httpTest(name: string, body: (it: ScriptedPath) => void, options: ScriptedPathOptions = {}): void {
  scriptedTest(`HTTP: ${name}`, { clusters, ...options }, body);
}

/** The status lines and bodies that a client has received. */
function statuses(text: string): string[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status);
}

httpTest('a request and its response', it => {
  const client = it.client(get('a.lab'));
  assert.match(
    it.backend().text,
    /^GET \/ HTTP\/1\.1\r\nHost: a\.lab\r\nX-Forwarded-For: 198\.51\.100\.7\r\n/,
  );
  it.backend().sends(ok('hello'));
  it.io.settle();
  assert.match(
    client.text,
    /^HTTP\/1\.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n.*\r\n\r\nhello$/s,
  );
  assert.equal(it.open.routes, 0, 'an idle connection holds no place');
});

httpTest('a kept connection serves the next request of anybody to the same backend', it => {
  const first = it.client(get('a.lab'));
  it.backend().sends(ok('one'));
  it.io.settle();
  it.client(get('a.lab'), '198.51.100.8');
  assert.equal(it.io.dialled.length, 1);
  it.backend().sends(ok('two'));
  it.io.settle();
  first.sends(get('b.lab'));
  it.io.settle();
  assert.equal(it.io.dialled.length, 2, 'but never another cluster');
});

httpTest('a connection that begins with a PROXY header serves one client only', it => {
  const client = it.client(get('p.lab'));
  it.backend().sends(ok('one'));
  it.io.settle();
  it.client(get('p.lab'), '198.51.100.8');
  assert.equal(it.io.dialled.length, 2);
  client.sends(get('p.lab'));
  it.io.settle();
  assert.match(it.io.dialled[0].text, /^PROXY .*\r\nGET .*\r\n\r\nGET /s);
});

httpTest('a connection that has carried a body serves one client only, and closes with it', it => {
  const client = it.client(post('a.lab', 'one'));
  for (const request of [post('a.lab', 'two'), get('a.lab'), post('a.lab', 'three')]) {
    it.backend().sends(ok('thanks'));
    it.io.settle();
    client.sends(request);
    it.io.settle();
  }
  assert.equal(it.io.dialled.length, 1);
  it.backend().sends(ok('thanks'));
  it.io.settle();
  it.client(get('a.lab'), '198.51.100.8');
  assert.equal(it.io.dialled.length, 2);
  client.fin();
  it.io.settle();
  assert.deepEqual(
    it.io.dialled.map(({ end }) => end),
    ['fin', undefined],
  );
});

httpTest('a client has connections of its own to several backends', it => {
  const client = it.connects();
  for (const [host, at] of [
    ['a.lab', 0],
    ['b.lab', 1],
    ['a.lab', 0],
    ['b.lab', 1],
  ] as const) {
    client.sends(post(host, 'one'));
    it.io.settle();
    it.io.dialled[at].sends(ok('thanks'));
    it.io.settle();
  }
  assert.deepEqual([it.io.dialled.length, statuses(client.text)], [2, ['200', '200', '200', '200']]);
});

httpTest('a request that cannot be repeated ends with the kept connection that it went over', it => {
  const client = it.client(post('a.lab', 'one'));
  it.backend().sends(ok('thanks'));
  it.io.settle();
  client.sends(post('a.lab', 'two'));
  it.io.settle();
  it.backend().fin();
  it.io.settle();
  assert.deepEqual([statuses(client.text), client.end, it.reasons], [['200'], 'reset', ['backend-reset']]);
  assert.deepEqual(
    it.requests.map(({ status }) => status),
    [200, 502],
  );
  assert.equal(it.io.dialled.length, 1);
});

httpTest('a request that cannot be repeated goes over a new one if a kept connection has just closed', it => {
  const client = it.client(post('a.lab', 'one'));
  it.backend().sends(ok('thanks'));
  it.io.settle();
  // Its event has not come yet.
  it.io.meanwhile = () => it.io.dialled[0].resets();
  client.sends(post('a.lab', 'two'));
  it.io.settle();
  assert.equal(it.io.dialled.length, 2);
  it.backend().sends(ok('thanks'));
  it.io.settle();
  assert.deepEqual(statuses(client.text), ['200', '200']);
  assert.match(it.backend().text, /\r\n\r\ntwo$/);
});

httpTest(
  'a request of which a kept connection took only a part before it was reset goes over a new one whole',
  it => {
    const client = it.client(get('a.lab'));
    it.backend().sends(ok('one'));
    it.io.settle();
    const [kept] = it.io.dialled;
    kept.stalls(10);
    client.sends(get('a.lab', 'X-Number: 2'));
    it.io.settle();
    kept.resets();
    it.io.settle();
    assert.match(it.backend().text, /^GET \/ .*X-Number: 2\r\n/s);
    it.backend().sends(ok('two'));
    it.io.settle();
    assert.deepEqual(statuses(client.text), ['200', '200']);
  },
);

for (const [what, said, isEnding] of [
  ['closes', ok('one', 'Connection: close'), false],
  ['has more to say', `${ok('one')}HTTP/1.1 200 OK\r\n`, false],
  ['has sent FIN', ok('one'), true],
] as const)
  httpTest(`a backend that ${what} behind its response is not kept`, it => {
    const client = it.client(get('a.lab'));
    it.backend().sends(said);
    if (isEnding) it.backend().fin();
    it.io.settle();
    assert.deepEqual([statuses(client.text), it.path.keptBackends.slots.size], [['200'], 0]);
    assert.notEqual(it.backend().end, undefined);
  });

httpTest('a backend that answers before it has taken the whole request is not kept', it => {
  it.io.answer = () => 'silence';
  const client = it.client(get('a.lab', `X-Long: ${'x'.repeat(5000)}`));
  it.backend().stalls(1000).accepts();
  it.io.settle();
  it.backend().sends(ok('one'));
  it.io.settle();
  assert.deepEqual(statuses(client.text), ['200']);
  if (it.io.reports === 'state') assert.equal(it.path.keptBackends.slots.size, 0);
});

httpTest('a backend may speak first', it => {
  it.io.answer = () => 'silence';
  const client = it.client(get('a.lab'));
  it.backend().accepts();
  it.backend().sends(ok('busy', 'Connection: close'));
  it.io.settle();
  assert.match(client.text, /busy$/);
});

httpTest('a connection to a backend that a new table does not have is not kept', it => {
  const client = it.client(get('a.lab'));
  const [backend] = it.io.dialled;
  const moved = sampleRoute({ kind: 'apps-http', hosts: ['a.lab'], backends: ['192.0.2.9:80'] });
  it.serves([sampleCluster('a', { routes: [moved] })]);
  backend.sends(ok('one'));
  it.io.settle();
  assert.deepEqual(
    [statuses(client.text), backend.end, it.path.keptBackends.slots.size],
    [['200'], 'fin', 0],
  );
});

httpTest('a connection to an address that its backend no longer has is not kept', it => {
  for (const from of ['198.51.100.7', '198.51.100.8']) it.client(get('a.lab'), from);
  const [idle, busy] = it.io.dialled;
  idle.sends(ok('one'));
  it.io.settle();
  const [slot] = it.path.keptBackends.slots;
  it.path.table.setAddresses(slot, ['192.0.2.9']);
  leaveAddresses(it.path, slot);
  assert.deepEqual([idle.end, busy.end], ['fin', undefined]);
  busy.sends(ok('two'));
  it.io.settle();
  assert.equal(busy.end, 'fin');
});

httpTest('a kept connection closes when it has been idle for 4 s', it => {
  it.client(get('a.lab'));
  it.backend().sends(ok('one'));
  it.io.settle();
  it.io.passes(3900);
  assert.equal(it.backend().end, undefined);
  it.io.passes(200);
  assert.notEqual(it.backend().end, undefined);
});

httpTest('pipelined requests are answered in order', it => {
  const client = it.client(get('a.lab', 'X-N: 1') + get('a.lab', 'X-N: 2') + get('b.lab', 'X-N: 3'));
  for (const body of ['one', 'two', 'three']) {
    it.backend().sends(ok(body));
    it.io.settle();
  }
  assert.deepEqual(statuses(client.text), ['200', '200', '200']);
  assert.ok(client.text.indexOf('one') < client.text.indexOf('two'));
  assert.ok(client.text.endsWith('three'));
});

for (const [what, bytes, status] of [
  ['no host', 'GET / HTTP/1.1\r\n\r\n', '400'],
  ['an unknown host', get('c.lab'), '421'],
  ['a bare line feed', 'GET / HTTP/1.1\nHost: a.lab\n\n', '400'],
  ['both lengths', get('a.lab', 'Content-Length: 1', 'Transfer-Encoding: chunked'), '400'],
] as const)
  for (const isLater of [false, true])
    httpTest(`${what} is refused${isLater ? ', behind a request that was served' : ''}`, it => {
      const client = it.client(isLater ? get('a.lab') : bytes);
      if (isLater) {
        it.backend().sends(ok('one'));
        it.io.settle();
        client.sends(bytes);
        it.io.settle();
      }
      assert.deepEqual(statuses(client.text), isLater ? ['200', status] : [status]);
      client.fin();
      it.io.settle();
      assert.deepEqual(it.reasons, [status === '421' ? 'unknown-host' : 'bad-request']);
    });

httpTest('the body of a request passes, with its length or in chunks', it => {
  const head = (...lines: string[]) => ['POST / HTTP/1.1', 'Host: a.lab', ...lines, '', ''].join('\r\n');
  it.client(`${head('Content-Length: 5')}hello`);
  assert.ok(it.backend().text.endsWith('\r\n\r\nhello'));
  it.client(`${head('Transfer-Encoding: chunked')}5;x=y\r\nhello\r\n0\r\nX-Sum: 1\r\nHost: b.lab\r\n\r\n`);
  assert.ok(it.backend().text.endsWith('\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n'), it.backend().text);
});

httpTest('a large body in chunks passes, some reads at a time', it => {
  const body = 'x'.repeat(300_000);
  const size = body.length.toString(16);
  it.client(
    `POST / HTTP/1.1\r\nHost: a.lab\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`,
  );
  assert.equal(it.backend().text.replaceAll(/[^x]/g, '').length, body.length);
});

httpTest('a request that is refused has no route, whatever was served before it', it => {
  const client = it.client(get('a.lab'));
  it.backend().sends(ok('one'));
  it.io.settle();
  client.sends(get('c.lab'));
  it.io.settle();
  client.fin();
  it.io.settle();
  assert.deepEqual(
    it.requests.map(({ status, slot }) => [status, slot > 0]),
    [
      [200, true],
      [421, false],
    ],
  );
  assert.equal(it.records[0].slot, 0);
});

httpTest('an upgrade behind another request is not offered', it => {
  it.client(get('a.lab') + get('a.lab', 'X-N: 2', 'Connection: Upgrade', 'Upgrade: echo'));
  it.backend().sends(ok('one'));
  it.io.settle();
  assert.match(it.backend().text, /X-N: 2/);
  assert.doesNotMatch(it.backend().text, /Upgrade/);
});

httpTest('a broken chunk is refused, and nothing more reaches the backend', it => {
  const client = it.client(
    'POST / HTTP/1.1\r\nHost: a.lab\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxx\r\n',
  );
  assert.deepEqual(statuses(client.text), ['400']);
});

httpTest('a response without a length reaches HTTP/1.1 in chunks, and HTTP/1.0 until the end', it => {
  for (const [version, body] of [
    ['1.1', '5\r\nhello\r\n0\r\n\r\n'],
    ['1.0', 'hello'],
  ]) {
    const client = it.client(`GET / HTTP/${version}\r\nHost: a.lab\r\n\r\n`);
    it.backend().sends('HTTP/1.1 200 OK\r\n\r\nhello');
    it.io.settle();
    it.backend().fin();
    it.io.settle();
    assert.ok(client.text.endsWith(`\r\n\r\n${body}`), client.text);
  }
});

httpTest('a backend that closes before it answers is a 502, in the middle a reset', it => {
  const first = it.client(get('a.lab'));
  it.backend().fin();
  it.io.settle();
  assert.deepEqual(statuses(first.text), ['502']);
  const second = it.client(get('a.lab'));
  it.backend().sends('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc');
  it.io.settle();
  it.backend().fin();
  it.io.settle();
  assert.deepEqual([second.end, it.reasons], ['reset', ['backend-reset', 'backend-reset']]);
});

httpTest('a backend that cannot be reached is a 502', it => {
  it.io.answer = () => REFUSED;
  const client = it.client(get('a.lab'));
  it.io.passes(3000);
  assert.deepEqual([statuses(client.text), it.reasons], [['502'], ['connect-failed']]);
});

httpTest('a client that resets ends its request: client-gone before a backend is reached', it => {
  it.client(get('a.lab')).resets();
  it.io.settle();
  it.io.answer = () => 'silence';
  it.client(get('b.lab')).resets();
  it.io.settle();
  assert.deepEqual(it.reasons, ['client-gone', 'client-reset']);
});

httpTest('a client that sends FIN behind its request is answered', it => {
  const client = it.client(get('a.lab'));
  client.fin();
  it.io.settle();
  it.backend().sends(ok('hello'));
  it.io.settle();
  assert.ok(client.text.endsWith('hello'));
  assert.deepEqual(it.reasons, ['done']);
});

httpTest('an upgrade becomes a tunnel', it => {
  const client = it.client(get('a.lab', 'Connection: Upgrade', 'Upgrade: echo') + 'early');
  it.backend().sends('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nfirst');
  it.io.settle();
  assert.ok(client.text.endsWith('\r\n\r\nfirst') && it.backend().text.endsWith('\r\n\r\nearly'));
  client.sends('more').fin();
  it.io.settle();
  assert.ok(it.backend().text.endsWith('earlymore'));
  it.backend().sends('bye').fin();
  it.io.settle();
  assert.ok(client.text.endsWith('firstbye'));
  assert.deepEqual(it.reasons, ['done']);
});

httpTest('a client that sends FIN behind its upgrade has ended its direction of the tunnel', it => {
  const client = it.client(get('a.lab', 'Connection: Upgrade', 'Upgrade: echo') + 'all');
  client.fin();
  it.io.settle();
  it.backend().sends('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
  it.io.settle();
  assert.ok(it.backend().text.endsWith('\r\n\r\nall'));
  assert.equal(it.backend().end, 'fin');
  it.backend().sends('bye').fin();
  it.io.settle();
  assert.ok(client.text.endsWith('bye'));
  assert.deepEqual(it.reasons, ['done']);
});

httpTest('a response right behind an informational one waits with it for a client that does not read', it => {
  const client = it.client(get('a.lab')).stalls(10);
  const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n';
  it.backend().sends(hints + ok('hello'));
  it.io.settle();
  client.resumes();
  it.io.settle();
  assert.ok(client.text.startsWith(`${hints}HTTP/1.1 200 OK\r\n`) && client.text.endsWith('hello'));
});

httpTest('thousands of informational responses at once do not hold up others', it => {
  const client = it.client(get('a.lab'));
  const informational = 'HTTP/1.1 100 \r\n\r\n'.repeat(3000);
  let calls = 0;
  it.io.meanwhile = () => void calls++;
  it.backend().sends(informational + ok('hello'));
  it.io.settle();
  assert.ok(client.text.startsWith(informational) && client.text.endsWith('hello'));
  assert.ok(calls < 10, `${calls} system calls`);
});

httpTest('a backend that fails behind an informational response is a 502 behind it', it => {
  const client = it.client(get('a.lab')).stalls(10);
  const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n';
  it.backend().sends(hints).fin();
  it.io.settle();
  client.resumes();
  it.io.settle();
  assert.ok(client.text.startsWith(`${hints}HTTP/1.1 502 `));
});

httpTest('a client that leaves behind half an informational response is reset', it => {
  const client = it.client('POST / HTTP/1.1\r\nHost: a.lab\r\nContent-Length: 100\r\n\r\nhalf').stalls(10);
  it.backend().sends('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n');
  it.io.settle();
  client.fin();
  it.io.settle();
  // node:net takes whole writes, and sends FIN behind them.
  assert.equal(client.end, it.io.reports === 'state' ? 'reset' : undefined);
  assert.deepEqual(it.reasons, ['client-gone']);
});

httpTest('a drain closes idle connections, and ends others behind their response', it => {
  const [idle, busy] = [it.client(get('a.lab')), it.client(get('b.lab'))];
  it.io.dialled[0].sends(ok('one'));
  it.io.settle();
  it.drains();
  it.io.settle();
  assert.deepEqual([idle.end, it.io.dialled[0].end, busy.end], ['fin', 'fin', undefined]);
  it.io.dialled[1].sends(ok('two'));
  it.io.settle();
  assert.match(busy.text, /\r\nConnection: close\r\n/);
  assert.equal(busy.end, 'fin');
});

httpTest('a backend that takes nothing of a request for too long ends its connection', it => {
  const client = it.client('POST / HTTP/1.1\r\nHost: a.lab\r\nContent-Length: 200000\r\n\r\n');
  it.backend().stalls();
  client.sends('x'.repeat(150_000));
  it.io.settle();
  it.io.passes(11_000);
  assert.deepEqual([client.end, it.reasons], ['reset', ['idle-timeout']]);
});

httpTest('a backend that takes nothing of a head for too long ends its connection', it => {
  it.io.meanwhile = () => it.io.dialled.at(-1)?.stalls();
  // The kernel notices before the timing wheel does.
  it.io.passes(1);
  const client = it.client(get('a.lab'));
  it.io.passes(12_000);
  assert.deepEqual([client.end, it.reasons], ['reset', ['idle-timeout']]);
});

httpTest('a redirect closes the connection of a client that sent FIN with its request', it => {
  const client = it.connects();
  it.io.settle();
  client.sends(get('r.lab')).fin();
  it.io.settle();
  assert.deepEqual([statuses(client.text), client.end, it.reasons], [['308'], 'fin', ['done']]);
});

httpTest('an early response reaches a slow client whole, whatever comes of its request', it => {
  const client = it.client('POST / HTTP/1.1\r\nHost: a.lab\r\nContent-Length: 100\r\n\r\nhalf').stalls(10);
  it.backend().sends(ok('no thanks', 'Connection: close')).fin();
  it.io.settle();
  client.sends(' of it');
  it.io.settle();
  client.resumes();
  it.io.settle();
  assert.ok(client.text.endsWith('no thanks'), client.text);
  assert.deepEqual(it.reasons, ['done']);
});

/** Just when a request or a part of it is to be sent, its backend answers and resets. */
function rejectsWhileSending(it: ScriptedPath): void {
  it.io.meanwhile = () => {
    if (it.io.dialled.at(-1)?.isOpen !== true) return;
    it.io.meanwhile = () => {};
    it.backend().sends('HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n').resets();
  };
}

httpTest('a body is never taken for the next request, if its backend answers before it gets the body', it => {
  rejectsWhileSending(it);
  const body = get('b.lab');
  const client = it.client(`POST / HTTP/1.1\r\nHost: a.lab\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  assert.equal(it.io.dialled.length, 1);
  // A failed write of node:net loses the response.
  assert.deepEqual(statuses(client.text), [it.io.reports === 'state' ? '413' : '502']);
});

httpTest('a request behind such a body is served, whatever was read meanwhile', it => {
  const client = it.client('POST / HTTP/1.1\r\nHost: a.lab\r\nTransfer-Encoding: chunked\r\n\r\n');
  rejectsWhileSending(it);
  client.sends(`8000\r\n${'x'.repeat(0x8000)}\r\n0\r\n\r\n${get('b.lab')}`);
  it.io.settle();
  if (it.io.reports === 'changes') return assert.deepEqual(statuses(client.text), ['502']);
  assert.match(it.backend().text, /^GET \/ HTTP\/1\.1\r\nHost: b\.lab\r\n/);
  it.backend().sends(ok('two'));
  it.io.settle();
  assert.deepEqual(statuses(client.text), ['413', '200']);
});

httpTest(
  'idle backends make room when descriptors are short',
  it => {
    for (const from of ['198.51.100.7', '198.51.100.8']) it.client(get('a.lab'), from);
    for (const backend of it.io.dialled) backend.sends(ok('one'));
    it.io.settle();
    assert.deepEqual(
      it.io.dialled.map(({ end }) => end),
      [undefined, undefined],
    );
    // The third client takes the last descriptor, and its backend needs one more.
    const client = it.client(get('b.lab'), '198.51.100.9');
    assert.deepEqual(
      it.io.dialled.map(({ end }) => end),
      ['fin', undefined, undefined],
    );
    it.backend().sends(ok('two'));
    it.io.settle();
    assert.deepEqual(statuses(client.text), ['200']);
  },
  { capacity: 3 + 1 + 5 },
);

httpTest('a head that does not end is refused in time, and an idle connection closes in order', it => {
  const late = it.client(get('a.lab'));
  it.backend().sends(ok('one'));
  it.io.settle();
  late.sends('GET / HT');
  it.io.passes(5100);
  assert.deepEqual(statuses(late.text), ['200', '408']);
  const idle = it.client(get('a.lab'));
  it.backend().sends(ok('one'));
  it.io.settle();
  it.io.passes(61_000);
  assert.equal(idle.end, 'fin');
});

httpTest('a trickle of bytes does not extend the time for a head, behind another request either', it => {
  const client = it.client(`${get('a.lab')}GET`);
  it.backend().sends(ok('one'));
  it.io.settle();
  for (let sent = 0; sent < 12; sent++) {
    client.sends('x');
    it.io.passes(450);
  }
  assert.deepEqual(statuses(client.text), ['200', '408']);
});

httpTest('a table that no longer has its route resets an idle connection', it => {
  const client = it.client(get('a.lab'));
  it.backend().sends(ok('one'));
  it.io.settle();
  it.serves([clusters[1]]);
  it.io.settle();
  assert.deepEqual([client.end, it.reasons], ['reset', ['revoked']]);
});

/** One request, and what the backend answers. */
const exchanges = fc.record({
  host: fc.constantFrom('a.lab', 'b.lab'),
  body: fc.string({ unit: 'binary-ascii', maxLength: 3000 }),
  isChunkedRequest: fc.boolean(),
  isPost: fc.boolean(),
  answer: fc.string({ unit: 'binary-ascii', maxLength: 3000 }),
  framing: fc.constantFrom('length', 'chunked'),
});

test('HTTP: whatever the split and order, every request gets its own response, whole', () => {
  fc.assert(
    fc.property(
      fc.array(exchanges, { minLength: 1, maxLength: 5 }),
      fc.array(fc.nat(10_000), { maxLength: 12 }),
      fc.constantFrom('state' as const, 'changes' as const),
      (all, cuts, reports) => {
        const it = new ScriptedPath({ clusters, reports });
        const chunked = (text: string) =>
          `${text.length === 0 ? '' : `${text.length.toString(16)}\r\n${text}\r\n`}0\r\n\r\n`;
        const said = all
          .map(({ host, body, isPost, isChunkedRequest }, index) => {
            if (!isPost) return get(host, `X-Number: ${index}`);
            const framing = isChunkedRequest
              ? 'Transfer-Encoding: chunked'
              : `Content-Length: ${body.length}`;
            const head = ['POST / HTTP/1.1', `Host: ${host}`, `X-Number: ${index}`, framing, '', ''];
            return head.join('\r\n') + (isChunkedRequest ? chunked(body) : body);
          })
          .join('');
        const client = it.connects();
        let sent = 0;
        for (const cut of [...cuts.map(at => at % said.length).toSorted((a, b) => a - b), said.length]) {
          client.sends(said.slice(sent, cut));
          sent = cut;
          it.io.settle();
        }
        for (const [index, { answer, framing, body, isPost, isChunkedRequest }] of all.entries()) {
          const backend = it.io.dialled.find(peer => peer.text.includes(`X-Number: ${index}\r\n`));
          assert.ok(backend, `request ${index} has reached no backend`);
          if (isPost) assert.ok(backend.text.endsWith(isChunkedRequest ? '0\r\n\r\n' : body));
          const head =
            framing === 'length' ? `Content-Length: ${answer.length}` : 'Transfer-Encoding: chunked';
          backend.sends(`HTTP/1.1 200 OK\r\nX-Number: ${index}\r\n${head}\r\n\r\n`);
          it.io.settle();
          backend.sends(framing === 'length' ? answer : chunked(answer));
          it.io.settle();
        }
        let at = 0;
        for (const [index, { answer, framing }] of all.entries()) {
          const head = client.text.indexOf('\r\n\r\n', at) + 4;
          assert.ok(client.text.slice(at, head).includes(`X-Number: ${index}\r\n`));
          const body = framing === 'length' ? answer : chunked(answer);
          assert.equal(client.text.slice(head, head + body.length), body);
          at = head + body.length;
        }
        assert.equal(at, client.text.length);
        assert.deepEqual(it.io.violations, []);
        it.endAll();
        it.assertOver();
      },
    ),
    { numRuns: 300 },
  );
});
