import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { RequestLog, type RequestRecord } from './request-log.ts';

const MAX_HELD = 8192;

beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));

afterEach(() => mock.timers.reset());

function given() {
  const batches: { readonly hosts: readonly (string | undefined)[]; readonly dropped: number }[] = [];
  let held = 0;
  const log = new RequestLog(
    (records, dropped) => batches.push({ hosts: records.map(({ host }) => host), dropped }),
    change => {
      held += change;
    },
  );
  return { log, batches, held: () => held };
}

function record(host: string): RequestRecord {
  return {
    address: new Uint8Array(16),
    port: 1,
    host,
    slot: 0,
    backend: undefined,
    method: 'GET',
    status: 200,
    ms: 1,
  };
}

test('RequestLog sends lines in a batch, shortly after the first', () => {
  const { log, batches } = given();
  log.write(record('a'));
  log.write(record('b'));
  assert.deepEqual(batches, []);
  mock.timers.tick(20);
  assert.deepEqual(batches, [{ hosts: ['a', 'b'], dropped: 0 }]);
  mock.timers.tick(1000);
  assert.equal(batches.length, 1);
});

test('RequestLog has one batch in flight, and sends the next when that is written', () => {
  const { log, batches } = given();
  log.write(record('a'));
  log.flush();
  log.write(record('b'));
  log.flush();
  mock.timers.tick(1000);
  assert.equal(batches.length, 1);
  log.taken();
  assert.deepEqual(batches[1], { hosts: ['b'], dropped: 0 });
  log.taken();
  log.write(record('c'));
  mock.timers.tick(20);
  assert.equal(batches.length, 3);
});

test('RequestLog counts the lines that it cannot hold, and reports the count once', () => {
  const { log, batches } = given();
  log.write(record('first'));
  log.flush();
  for (let i = 0; i < MAX_HELD + 5; i++) log.write(record(`${i}`));
  log.taken();
  assert.deepEqual([batches[1].hosts.length, batches[1].dropped], [MAX_HELD, 5]);
  log.write(record('last'));
  log.taken();
  assert.deepEqual(batches[2], { hosts: ['last'], dropped: 0 });
});

test('RequestLog.end() sends the last lines, even with a batch in flight', () => {
  const { log, batches } = given();
  log.write(record('a'));
  log.flush();
  log.write(record('b'));
  log.end();
  assert.deepEqual(batches[1], { hosts: ['b'], dropped: 0 });
  log.end();
  assert.equal(batches.length, 2);
});

test('RequestLog reports how many lines would be lost with it, including those it has dropped', () => {
  const { log, batches, held } = given();
  log.write(record('a'));
  assert.equal(held(), 1);
  log.flush();
  assert.equal(held(), 0);
  for (let i = 0; i < MAX_HELD + 3; i++) log.write(record('b'));
  assert.equal(held(), MAX_HELD + 3);
  log.taken();
  assert.equal(batches.at(-1)?.dropped, 3);
  assert.equal(held(), 0);
});
