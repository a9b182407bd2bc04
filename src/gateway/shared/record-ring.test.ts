import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatIpPort, parseIp } from '../../wire/ip-address.ts';
import { closeReasons } from '../close-reason.ts';
import { type ConnectionRecord, newRecordRing, RecordReader, RecordWriter } from './record-ring.ts';
import { AGENT_WITH_ORIGIN, CLIENT, ENDED_FIRST, ORIGIN, PEER, Rows, TLS } from './rows.ts';

function rowWith(host: string, clusterId = ''): Rows {
  const rows = new Rows(Rows.memory(4));
  rows.clear(2);
  rows.host[2] = host;
  rows.clusterId[2] = clusterId;
  rows.slot[2] = 70_000;
  rows.backendSlot[2] = 80_000;
  rows.listener[2] = 3;
  rows.protocol[2] = TLS;
  rows.startedAt[2] = 1000;
  rows.bytesIn[2] = 2 ** 40;
  rows.bytesOut[2] = 7;
  rows.detail[2] = 5;
  rows.detailSeconds[2] = 86_400;
  for (const [place, address] of [
    [PEER, '192.0.2.1'],
    [CLIENT, '2001:db8::1'],
    [ORIGIN, '10.0.0.1'],
  ] as const) {
    rows.addresses.set(parseIp(address) as Uint8Array, rows.addressAt(2, place));
    rows.setPort(2, place, 1000 + place);
  }
  return rows;
}

function take(reader: RecordReader): { records: ConnectionRecord[]; dropped: number } {
  const records: ConnectionRecord[] = [];
  const dropped = reader.take(record => records.push(record));
  return { records, dropped };
}

test('RecordReader.take() returns what RecordWriter.write() wrote', () => {
  const memory = newRecordRing();
  const rows = rowWith('api.a.lab', 'id-a');
  rows.client[2] = AGENT_WITH_ORIGIN;
  rows.input[2] = ENDED_FIRST;
  new RecordWriter(memory, () => {}).write(rows, 2, closeReasons.indexOf('revoked'), 1234.5);
  const { records, dropped } = take(new RecordReader(memory));
  const { peer, client, origin, ...rest } = records[0];
  assert.deepEqual(rest, {
    listener: 3,
    slot: 70_000,
    backendSlot: 80_000,
    protocol: TLS,
    reason: closeReasons.indexOf('revoked'),
    detail: 5,
    detailSeconds: 86_400,
    bytesIn: 2 ** 40,
    bytesOut: 7,
    ms: 234.5,
    dialMs: -1,
    host: 'api.a.lab',
    clusterId: 'id-a',
    clientEndedFirst: true,
    logged: true,
  });
  const text = (at: { address: Uint8Array; port: number } | undefined) =>
    at && formatIpPort(at.address, 0, at.port);
  assert.deepEqual([peer, client, origin].map(text), [
    '192.0.2.1:1000',
    '[2001:db8::1]:1001',
    '10.0.0.1:1002',
  ]);
  assert.equal(dropped, 0);
});

test('RecordWriter.write() notifies the reader once until it has read', () => {
  const memory = newRecordRing();
  let reported = 0;
  const writer = new RecordWriter(memory, () => reported++);
  const rows = rowWith('a');
  for (let i = 0; i < 3; i++) writer.write(rows, 2, 0, 0);
  assert.equal(reported, 1);
  assert.equal(take(new RecordReader(memory)).records.length, 3);
  writer.write(rows, 2, 0, 0);
  assert.equal(reported, 2);
});

test('RecordWriter.write() counts what a slow reader misses, and continues', () => {
  const memory = newRecordRing();
  const writer = new RecordWriter(memory, () => {});
  const reader = new RecordReader(memory);
  const rows = rowWith('h'.repeat(200));
  for (let round = 0; round < 3; round++) {
    const written = 10_000;
    for (let i = 0; i < written; i++) writer.write(rows, 2, 0, 0);
    const { records, dropped } = take(reader);
    assert.ok(dropped > 0);
    assert.equal(records.length + dropped, written);
    assert.ok(records.every(record => record.host === rows.host[2]));
  }
});

test('RecordReader.take() keeps order and content for any lengths, many times around the ring', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(300), { minLength: 1, maxLength: 60 }), lengths => {
      const memory = newRecordRing();
      const writer = new RecordWriter(memory, () => {});
      const reader = new RecordReader(memory);
      for (let round = 0; round < 400; round++) {
        const hosts = lengths.map((length, index) => `${round}.${index}.`.padEnd(length, 'x'));
        for (const host of hosts) writer.write(rowWith(host), 2, 0, 0);
        const { records } = take(reader);
        assert.deepEqual(
          records.map(record => record.host),
          hosts.map(host => host.slice(0, 255)),
        );
      }
    }),
    { numRuns: 3 },
  );
});

test('RecordWriter.write() marks records that the log omits, and does not count them as dropped', () => {
  const memory = newRecordRing();
  const writer = new RecordWriter(memory, () => {});
  const reader = new RecordReader(memory);
  const rows = rowWith('h'.repeat(200));
  rows.client[2] = AGENT_WITH_ORIGIN;
  writer.write(rows, 2, 0, 0, false);
  const [{ logged, origin, clientEndedFirst }] = take(reader).records;
  assert.deepEqual([logged, clientEndedFirst], [false, false]);
  assert.equal(origin?.port, 1000 + ORIGIN);
  for (let i = 0; i < 10_000; i++) writer.write(rows, 2, 0, 0, false);
  const { records, dropped } = take(reader);
  assert.ok(records.length < 10_000);
  assert.equal(dropped, 0);
});
