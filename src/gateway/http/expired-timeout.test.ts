import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expiredTimeout } from './expired-timeout.ts';

function given() {
  const socket = { bytesRead: 0, bytesWritten: 0, readableEnded: false, writableEnded: false };
  return { socket, connection: { socket, moved: -1, movedAt: 0 } };
}

test('expiredTimeout() counts from the last byte in either direction', () => {
  const { socket, connection } = given();
  const check = (now: number) => expiredTimeout(connection, { idleMs: 100, halfClosedMs: undefined }, now);
  assert.equal(check(1000), undefined);
  assert.equal(check(1099), undefined);
  socket.bytesRead++;
  assert.equal(check(1100), undefined);
  socket.bytesWritten++;
  assert.equal(check(1150), undefined);
  assert.equal(check(1249), undefined);
  assert.equal(check(1250), 'idle-timeout');
});

for (const side of ['readableEnded', 'writableEnded'] as const) {
  test(`expiredTimeout() applies halfClosed once one side has ended, where that is shorter: ${side}`, () => {
    const { socket, connection } = given();
    const check = (now: number) => expiredTimeout(connection, { idleMs: 1000, halfClosedMs: 100 }, now);
    assert.equal(check(1000), undefined);
    assert.equal(check(1500), undefined);
    socket[side] = true;
    assert.equal(check(1600), undefined);
    assert.equal(check(1699), undefined);
    assert.equal(check(1700), 'half-closed-timeout');
  });
}

test('expiredTimeout() is idle-timeout if idle is no longer than halfClosed, and undefined if neither is set', () => {
  const { socket, connection } = given();
  socket.readableEnded = true;
  expiredTimeout(connection, { idleMs: 100, halfClosedMs: 100 }, 0);
  assert.equal(expiredTimeout(connection, { idleMs: 100, halfClosedMs: 100 }, 100), 'idle-timeout');
  assert.equal(expiredTimeout(connection, { idleMs: undefined, halfClosedMs: undefined }, 1e12), undefined);
});
