// What a refused client sees, and that refused clients hold nothing for long.

import assert from 'node:assert/strict';
import { tlsAlert } from '../../wire/tls-alert.ts';
import { helloFor, type ScriptedPath, scriptedTest } from './scripted-path.samples.ts';

const unknownName = Buffer.from(tlsAlert('unrecognized_name'));

/** A client that is refused and does not close yet. */
function refused(it: ScriptedPath) {
  const client = it.client(helloFor('unknown.lab'));
  assert.deepEqual([client.received, client.end, it.open.lingering], [unknownName, 'fin', 1]);
  return client;
}

scriptedTest('linger() sends the refusal and FIN, and closes when the client closes', {}, it => {
  const client = refused(it);
  assert.equal(it.open.connections, 0);
  client.closes();
  it.io.settle();
  assert.deepEqual([it.open.lingering, it.io.open, it.io.alarmAt], [0, [], Infinity]);
});

scriptedTest('linger() drops what the client still sends, without a reset', {}, it => {
  const client = refused(it);
  for (let i = 0; i < 10; i++) {
    client.sends(Buffer.alloc(20_000, i));
    it.io.passes(100);
  }
  assert.deepEqual([client.received, client.end, it.open.lingering], [unknownName, 'fin', 1]);
  assert.equal(it.records[0].bytesIn, helloFor('unknown.lab').length);
});

scriptedTest('linger() closes a client that sends too much', {}, it => {
  const client = refused(it);
  for (let i = 0; i < 30 && it.io.open.length > 0; i++) {
    client.sends(Buffer.alloc(20_000));
    it.io.settle();
  }
  assert.deepEqual([it.open.lingering, it.io.open], [0, []]);
});

scriptedTest('linger() closes after 2 s, however busy the client is', {}, it => {
  const client = refused(it);
  for (let i = 0; i < 19; i++) {
    client.sends('x');
    it.io.passes(100);
  }
  assert.equal(it.open.lingering, 1);
  it.io.passes(200);
  assert.deepEqual([it.open.lingering, it.io.open], [0, []]);
});

scriptedTest('linger() closes at once when the client resets', {}, it => {
  refused(it).resets();
  it.io.settle();
  assert.deepEqual([it.open.lingering, it.io.open, it.reasons], [0, [], ['unknown-host']]);
});

scriptedTest('linger() sends a long refusal in pieces, then FIN', {}, it => {
  const client = it.connects().stalls(10).sends('GET / HTTP/1.1\r\nHost: unknown.lab\r\n\r\n');
  it.io.settle();
  for (let i = 0; i < 500 && client.end === undefined; i++) {
    client.reads(7);
    it.io.settle();
  }
  assert.match(client.text, /^HTTP\/1\.1 421 .*unknown-host: [^\n]*\n$/s);
  assert.deepEqual([client.end, client.received.length], ['fin', it.records[0].bytesOut]);
});

scriptedTest('linger() gives up on a client that does not read its refusal', {}, it => {
  const client = it.connects().stalls(0).sends(helloFor('unknown.lab'));
  it.io.passes(2100);
  assert.deepEqual([client.text, it.io.open, it.reasons], ['', [], ['unknown-host']]);
});

scriptedTest('linger() closes refused clients at once while 512 linger', { capacity: 1024 }, it => {
  const clients = Array.from({ length: 520 }, (_, i) =>
    it.client(helloFor('unknown.lab'), `2001:db8:${i}::1`),
  );
  assert.equal(it.open.lingering, 512);
  // The refusal is sent to all; those beyond read it if they have not sent more.
  assert.ok(clients.every(({ received }) => received.equals(unknownName)));
  clients[0].closes();
  it.io.settle();
  assert.equal(it.open.lingering, 511);
});
