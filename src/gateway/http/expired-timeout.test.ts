import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expiredTimeout } from './expired-timeout.ts';

function given() {
  const socket = { bytesRead: 0, bytesWritten: 0, readableEnded: false, writableEnded: false };
  return { socket, connection: { socket, moved: -1, movedAt: 0 } };
}

test('overdue() counts from the last byte that was seen, either way', () => {
  const { socket, connection } = given();
  const look = (now: number) => expiredTimeout(connection, { idleMs: 100, halfClosedMs: undefined }, now);
  assert.equal(look(1000), undefined);
  assert.equal(look(1099), undefined);
  socket.bytesRead++;
  assert.equal(look(1100), undefined);
  socket.bytesWritten++;
  assert.equal(look(1150), undefined);
  assert.equal(look(1249), undefined);
  assert.equal(look(1250), 'idle-timeout');
});

for (const side of ['readableEnded', 'writableEnded'] as const) {
  test(`overdue() counts from the end of one side where that is shorter: ${side}`, () => {
    const { socket, connection } = given();
    const look = (now: number) => expiredTimeout(connection, { idleMs: 1000, halfClosedMs: 100 }, now);
    assert.equal(look(1000), undefined);
    assert.equal(look(1500), undefined);
    socket[side] = true;
    assert.equal(look(1600), undefined);
    assert.equal(look(1699), undefined);
    assert.equal(look(1700), 'half-closed-timeout');
  });
}

test('overdue() is idle-timeout where idle is no longer than halfClosed, and nothing where neither is set', () => {
  const { socket, connection } = given();
  socket.readableEnded = true;
  expiredTimeout(connection, { idleMs: 100, halfClosedMs: 100 }, 0);
  assert.equal(expiredTimeout(connection, { idleMs: 100, halfClosedMs: 100 }, 100), 'idle-timeout');
  assert.equal(expiredTimeout(connection, { idleMs: undefined, halfClosedMs: undefined }, 1e12), undefined);
});
