import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { EventStreams, MAX_STREAMS } from './event-streams.ts';

/** A client that takes what it is sent, until it stalls. */
class Client extends EventEmitter {
  text = '';
  writableLength = 0;
  stalled = false;
  destroyed = false;
  ended = false;
  head: unknown[] = [];

  writeHead(...head: unknown[]): void {
    this.head = head;
  }

  write(text: string): void {
    if (this.stalled) this.writableLength += text.length;
    else this.text += text;
  }

  end(): void {
    this.ended = true;
    this.emit('close');
  }

  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }

  get response(): ServerResponse {
    return this as unknown as ServerResponse;
  }
}

test('EventStreams.send() reaches every client, in the form of the standard', () => {
  const streams = new EventStreams();
  const clients = [new Client(), new Client()];
  for (const client of clients) assert.ok(streams.open(client.response, { 'X-More': 'yes' }));
  streams.send('table', { ok: true, error: 'two\nlines' });
  for (const { text, head } of clients) {
    assert.equal(text, 'retry: 2000\n\nevent: table\ndata: {"ok":true,"error":"two\\nlines"}\n\n');
    assert.equal(head[0], 200);
    const headers = head[1] as Record<string, string>;
    assert.equal(headers['Content-Type'], 'text/event-stream');
    assert.equal(headers['X-More'], 'yes');
  }
  streams[Symbol.dispose]();
});

test('EventStreams drop a client that does not read, and no other', () => {
  const streams = new EventStreams();
  const [slow, quick] = [new Client(), new Client()];
  for (const client of [slow, quick]) streams.open(client.response);
  slow.stalled = true;
  let sent = 0;
  while (!slow.destroyed) {
    streams.send('refusal', { host: 'h'.repeat(1000) });
    assert.ok(++sent < 1000, 'its queue has a bound');
  }
  assert.ok(slow.writableLength <= 257 * 1024);
  assert.equal(quick.destroyed, false);
  assert.equal(streams.size, 1);
  streams.send('refusal', { last: true });
  assert.ok(quick.text.endsWith('data: {"last":true}\n\n'));
  streams[Symbol.dispose]();
});

test('EventStreams.open() does not count a client that has left before', () => {
  const streams = new EventStreams();
  const client = new Client();
  client.destroy();
  assert.ok(streams.open(client.response));
  assert.equal(streams.size, 0);
});

test('EventStreams.open() takes only so many, and again when one has gone', () => {
  const streams = new EventStreams();
  const clients = Array.from({ length: MAX_STREAMS }, () => new Client());
  for (const client of clients) assert.ok(streams.open(client.response));
  const late = new Client();
  assert.equal(streams.open(late.response), false);
  assert.deepEqual(late.head, []);
  clients[0].destroy();
  assert.equal(streams.open(late.response), true);
  streams[Symbol.dispose]();
  assert.ok(clients.slice(1).every(({ ended }) => ended) && late.ended);
  assert.equal(streams.size, 0);
});

test('EventStreams reports the first client, and the end of the last one', () => {
  const reported: boolean[] = [];
  const streams = new EventStreams(watched => reported.push(watched));
  const [first, second] = [new Client(), new Client()];
  streams.open(first.response);
  streams.open(second.response);
  first.destroy();
  assert.deepEqual(reported, [true]);
  second.destroy();
  assert.deepEqual(reported, [true, false]);
  streams.open(new Client().response);
  assert.deepEqual(reported, [true, false, true]);
  streams[Symbol.dispose]();
});

test('EventStreams send a comment every 15 s, as long as there is a client', t => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const streams = new EventStreams();
  const client = new Client();
  streams.open(client.response);
  t.mock.timers.tick(14_999);
  assert.equal(client.text, 'retry: 2000\n\n');
  t.mock.timers.tick(1);
  assert.equal(client.text, 'retry: 2000\n\n:\n\n');
  client.destroy();
  t.mock.timers.tick(60_000);
  assert.equal(client.text, 'retry: 2000\n\n:\n\n');
});

test('EventStreams drops a client whose stream throws, and serves the others', () => {
  const faults: unknown[] = [];
  const streams = new EventStreams(undefined, error => faults.push(error));
  const [broken, other] = [new Client(), new Client()];
  for (const { response } of [broken, other]) streams.open(response);
  const thrown = new Error('injected');
  broken.write = () => {
    throw thrown;
  };
  streams.send('health', { up: true });
  assert.deepEqual([faults, broken.destroyed, streams.size], [[thrown], true, 1]);
  assert.match(other.text, /"up":true/);
});

test('EventStreams.send() leaves out an event that cannot be written', () => {
  const faults: unknown[] = [];
  const streams = new EventStreams(undefined, error => faults.push(error));
  const client = new Client();
  streams.open(client.response);
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  streams.send('health', circular);
  streams.send('table', { ok: true });
  assert.equal(faults.length, 1);
  assert.match(client.text, /event: table/);
});

test('EventStreams.open() keeps no client whose stream cannot begin', () => {
  const streams = new EventStreams();
  const client = new Client();
  client.writeHead = () => {
    throw new Error('injected');
  };
  assert.throws(() => streams.open(client.response), /injected/);
  assert.equal(streams.size, 0);
});
