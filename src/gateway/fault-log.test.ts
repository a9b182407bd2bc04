import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorOf, FaultLog, type FaultReport } from './fault-log.ts';

function given() {
  const reports: FaultReport[] = [];
  const clock = { now: 1000 };
  const log = new FaultLog(
    'worker-1',
    report => reports.push(report),
    () => clock.now,
  );
  return { log, reports, clock };
}

test('FaultLog.write() reports the thread, the client or backend, and the stack', () => {
  const { log, reports } = given();
  const fault = new TypeError('no such thing');
  log.write(fault, { client: '192.0.2.1:40000' });
  assert.deepEqual(reports, [
    {
      thread: 'worker-1',
      about: { client: '192.0.2.1:40000' },
      error: { name: 'TypeError', message: 'no such thing', stack: fault.stack },
      suppressed: 0,
    },
  ]);
  assert.equal(errorOf(reports[0]).stack, fault.stack);
  // A thrown value need not be an Error, and a message to another thread must be plain data.
  log.write('thrown');
  assert.deepEqual(structuredClone(reports[1].error), { name: 'Error', message: 'thrown', stack: 'thrown' });
});

test('FaultLog.write() limits the rate of a fault in a loop, and reports how many it suppressed', () => {
  const { log, reports, clock } = given();
  for (let count = 0; count < 1000; count++) log.write(new Error(`number ${count}`));
  assert.equal(reports.length, 50);
  clock.now += 100;
  for (let count = 0; count < 5; count++) log.write(new Error('again'));
  assert.deepEqual(
    reports.slice(50).map(({ error, suppressed }) => [error.message, suppressed]),
    [['again', 950]],
  );
  clock.now += 60_000;
  for (let count = 0; count < 60; count++) log.write(new Error('later'));
  assert.deepEqual([reports.length, reports[51].suppressed, reports[52].suppressed], [101, 4, 0]);
});

test('FaultLog.write() survives a closed channel', () => {
  const sent: FaultReport[] = [];
  let isClosed = true;
  const log = new FaultLog('worker-0', report => {
    if (isClosed) throw new Error('closed');
    sent.push(report);
  });
  log.write(new Error('lost'));
  isClosed = false;
  log.write(new Error('told'));
  assert.deepEqual(
    sent.map(({ error, suppressed }) => [error.message, suppressed]),
    [['told', 1]],
  );
});
