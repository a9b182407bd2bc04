import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatIpPort, parseIp } from '../../wire/ip-address.ts';
import {
  BACKEND_SIDE,
  CLIENT,
  CLIENT_SIDE,
  DIALING,
  IDENTIFYING,
  LINGERING,
  NO_SIDE,
  PEER,
  Rows,
  TLS,
  TUNNEL,
} from '../shared/rows.ts';
import { describeRows, openRecords, parseConnectionId } from './open-connections.ts';

type Thread = Parameters<typeof openRecords>[0][number];

/** A worker that answers from its rows, after `before` has changed them. */
function worker(number: number, rows: Rows | undefined, before: (rows: Rows) => void = () => {}): Thread {
  return {
    number,
    lifetime: 77 + number,
    rows,
    async describe(lifetime, asked) {
      assert.equal(lifetime, 77 + number);
      assert.ok(rows !== undefined);
      before(rows);
      const handles = Int32Array.from(asked, row => row.handle);
      const generations = Uint32Array.from(asked, row => row.generation);
      return describeRows(rows, { handles, generations });
    },
  };
}

function open(rows: Rows, handle: number, host: string, startedAt: number, slot = 7): void {
  rows.clear(handle);
  rows.state[handle] = slot === 0 ? IDENTIFYING : TUNNEL;
  rows.side[handle] = CLIENT_SIDE;
  rows.slot[handle] = slot;
  rows.host[handle] = host;
  rows.protocol[handle] = TLS;
  rows.startedAt[handle] = startedAt;
  rows.bytesIn[handle] = handle;
  for (const place of [PEER, CLIENT]) {
    rows.addresses.set(parseIp('192.0.2.1') as Uint8Array, rows.addressAt(handle, place));
    rows.setPort(handle, place, 1000 + handle);
  }
}

const all = () => true;

test('openRecords() returns the newest connections of all workers, newest first', async () => {
  const [first, second] = [new Rows(Rows.memory(16)), new Rows(Rows.memory(16))];
  for (let handle = 0; handle < 6; handle++) {
    open(first, handle, `first-${handle}`, 100 + handle * 2);
    open(second, handle, `second-${handle}`, 101 + handle * 2);
  }
  const hosts = async (limit: number) =>
    (await openRecords([worker(0, first), worker(1, second), worker(2, undefined)], limit, all)).map(
      ({ host }) => host,
    );
  assert.deepEqual(await hosts(3), ['second-5', 'first-5', 'second-4']);
  assert.equal((await hosts(12)).length, 12);
  assert.equal((await hosts(100)).at(-1), 'first-0');
});

test('openRecords() keeps its limit when many began at the same time', async () => {
  const rows = new Rows(Rows.memory(16));
  for (let handle = 0; handle < 10; handle++) open(rows, handle, 'same', 5);
  assert.equal((await openRecords([worker(0, rows)], 4, all)).length, 4);
});

test('openRecords() leaves out backends, free rows and refused connections', async () => {
  const rows = new Rows(Rows.memory(16));
  open(rows, 1, 'tunnel', 1);
  open(rows, 2, 'its backend', 2, 1);
  rows.side[2] = BACKEND_SIDE;
  rows.slot[2] = 0;
  open(rows, 3, 'no route yet', 3, 0);
  open(rows, 4, 'dialling', 4);
  rows.state[4] = DIALING;
  open(rows, 5, 'refused', 5);
  rows.state[5] = LINGERING;
  rows.side[5] = NO_SIDE;
  const records = await openRecords([worker(0, rows)], 10, all);
  assert.deepEqual(
    records.map(({ host }) => host),
    ['dialling', 'no route yet', 'tunnel'],
  );
  const ofRoute = await openRecords([worker(0, rows)], 10, slot => slot === 7);
  assert.equal(ofRoute.length, 2);
});

test('openRecords() never mixes two connections: a row that was reused meanwhile is left out', async () => {
  const rows = new Rows(Rows.memory(16));
  for (let handle = 0; handle < 4; handle++) open(rows, handle, `old-${handle}`, handle);
  const reuse = worker(0, rows, () => {
    open(rows, 1, 'new', 50);
    rows.clear(2);
  });
  const records = await openRecords([reuse], 10, all);
  assert.deepEqual(
    records.map(({ host, bytesIn, peer }) => [host, bytesIn, formatIpPort(peer.address, 0, peer.port)]),
    [
      ['old-3', 3, '192.0.2.1:1003'],
      ['old-0', 0, '192.0.2.1:1000'],
    ],
  );
});

test('openRecords() returns ids that parseConnectionId() reads, a new one for each use of a row', async () => {
  const rows = new Rows(Rows.memory(16));
  open(rows, 9, 'a', 1);
  const [{ id: first }] = await openRecords([worker(3, rows)], 1, all);
  assert.deepEqual(parseConnectionId(first), { worker: 3, lifetime: 80, handle: 9, generation: 1 });
  open(rows, 9, 'b', 1);
  const [{ id: second }] = await openRecords([worker(3, rows)], 1, all);
  assert.notEqual(first, second);
});

test('parseConnectionId() rejects anything else', () => {
  for (const id of ['', '0', '0-1-2', '0-1-2-3-4', '0-1-2-', '-1-1-1-1', '0-1-2-A', '0 1-2-3', '0-1-2-3\n'])
    assert.equal(parseConnectionId(id), undefined, JSON.stringify(id));
  fc.assert(
    fc.property(fc.string(), text => {
      const place = parseConnectionId(text);
      return place === undefined || Object.values(place).every(Number.isSafeInteger);
    }),
  );
});
