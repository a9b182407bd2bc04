import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as check, property, string } from 'fast-check';
import { parseSessions, parseStat } from './show-stat.ts';

const SESSIONS = `0x55840d898f10: [18/Nov/2026:02:23:06.762324] id=14 proto=unix_stream source=unix:1
  frontend=GLOBAL (id=0 mode=tcp), listener=? (id=1) addr=unix:1
  backend=<NONE> (id=-1 mode=-)
  server=<NONE> (id=-1)
0x7fecec02c580: [18/Nov/2026:02:23:06.761731] id=12 proto=tcpv4 source=127.0.0.1:42241
  frontend=l0 (id=2 mode=tcp), listener=? (id=1) addr=127.0.0.1:42781
  backend=t1 (id=3 mode=tcp) addr=127.0.0.1:51188
  server=s1 (id=1) addr=127.0.0.1:58155
  req=0x7fecec02c5a0 (f=0x848000 an=0x0 pipe=0 tofwd=-1 total=517)
  res=0x7fecec02c600 (f=0x80048202 an=0x0 pipe=0 tofwd=-1 total=6)
`;

test('parseStat() reads what is open, by section and server', () => {
  const stat = parseStat('# pxname,svname,qcur,qmax,scur,smax\nl0,FRONTEND,,,3,9\na,s1,0,0,2,2\n\nbroken\n');
  assert.deepEqual(Object.fromEntries(stat), { 'l0/FRONTEND': 3, 'a/s1': 2 });
});

test('parseSessions() reads what show sess all answers', () => {
  const startedAt = new Date(2026, 10, 18, 2, 23, 6, 761).getTime();
  const [own, session] = parseSessions(SESSIONS, startedAt + 100);
  assert.equal(own.frontend, 'GLOBAL');
  assert.equal(own.source, undefined);
  assert.deepEqual(session, {
    pointer: '0x7fecec02c580',
    number: 12,
    source: { address: '127.0.0.1', port: 42241 },
    frontend: 'l0',
    backend: 't1',
    server: { address: '127.0.0.1', port: 58155 },
    bytesIn: 517,
    bytesOut: 6,
    ageMs: 100,
  });
});

test('parseStat() and parseSessions() never throw', () => {
  check(
    property(string({ unit: 'binary' }), text => {
      parseStat(text);
      parseSessions(`0x1: [${text}`, 0);
    }),
  );
});
