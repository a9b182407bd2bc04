import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ALIVE, CLIENT, DESTINATION, ORIGIN, PEER, Rows } from './rows.ts';

/** `counts` is a column of bytes. */
const COUNTS = 8;

test('Rows have room for every field of every row, and none overlaps another', () => {
  const rows = new Rows(Rows.memory(100));
  assert.ok(rows.capacity >= 100);
  const arrays = Object.values(rows).filter(value => ArrayBuffer.isView(value)) as Uint8Array[];
  const ranges = arrays
    .map(array => [array.byteOffset, array.byteOffset + array.byteLength])
    .toSorted((a, b) => a[0] - b[0]);
  for (let i = 1; i < ranges.length; i++) assert.equal(ranges[i][0], ranges[i - 1][1]);
  assert.equal(ranges.at(-1)?.[1], rows.state.buffer.byteLength);
});

test('Rows keep four addresses and ports apart', () => {
  const rows = new Rows(Rows.memory(8));
  for (const handle of [0, 7]) {
    for (const place of [PEER, CLIENT, ORIGIN, DESTINATION]) {
      rows.addresses.fill(
        handle * 4 + place,
        rows.addressAt(handle, place),
        rows.addressAt(handle, place) + 16,
      );
      rows.setPort(handle, place, handle * 4 + place);
    }
  }
  rows.copyAddress(7, PEER, CLIENT);
  assert.equal(rows.portOf(7, CLIENT), 28);
  assert.equal(rows.addresses[rows.addressAt(7, CLIENT) + 15], 28);
  assert.equal(rows.addresses[rows.addressAt(7, ORIGIN)], 30);
  assert.equal(rows.portOf(0, DESTINATION), 3);
});

test('Rows.clear() changes the generation of that row only', () => {
  const rows = new Rows(Rows.memory(8));
  rows.generation[3] = 2 ** 32 - 1;
  rows.clear(3);
  assert.equal(rows.generation[3], 0);
  rows.clear(3);
  assert.equal(rows.generation[3], 1);
  assert.deepEqual([rows.generation[2], rows.generation[4]], [0, 0]);
});

test('Rows.used is one more than the highest handle ever in use, in every thread that has the memory', () => {
  const memory = Rows.memory(1000);
  const [rows, elsewhere] = [new Rows(memory), new Rows(memory)];
  assert.equal(elsewhere.used, 0);
  for (const handle of [3, 700, 12]) rows.clear(handle);
  assert.equal(elsewhere.used, 701);
});

test('every flag of a row is a bit of its own, and so is every count', () => {
  const source = readFileSync(new URL('./rows.ts', import.meta.url), 'utf8');
  const bits = [...source.matchAll(/^export const \w+ = 1 << (\d+);$/gm)].map(([, bit]) => Number(bit));
  const flags = bits.slice(COUNTS);
  assert.deepEqual(
    bits.slice(0, COUNTS),
    Array.from({ length: COUNTS }, (_, bit) => bit),
  );
  assert.ok(flags.length > 0 && flags.length < 32);
  assert.deepEqual(
    flags,
    flags.map((_, bit) => bit),
  );
});

test('Rows.takeOver() continues a connection of other rows, without its counts', () => {
  const [from, to] = [new Rows(Rows.memory(8)), new Rows(Rows.memory(16))];
  from.clear(2);
  from.slot[2] = 7;
  from.startedAt[2] = 1.5;
  from.addresses.fill(9, from.addressAt(2, CLIENT), from.addressAt(2, CLIENT) + 16);
  from.setPort(2, CLIENT, 443);
  from.counts[2] = ALIVE;
  const generation = to.generation[11];
  to.takeOver(from, 2, 11);
  assert.deepEqual([to.slot[11], to.startedAt[11], to.portOf(11, CLIENT)], [7, 1.5, 443]);
  assert.equal(to.addresses[to.addressAt(11, CLIENT) + 15], 9);
  assert.deepEqual([to.counts[11], to.generation[11], to.used], [0, generation + 1, 12]);
  assert.deepEqual([to.slot[10], to.portOf(12, CLIENT)], [0, 0]);
});
