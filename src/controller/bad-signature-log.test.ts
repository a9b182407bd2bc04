import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Logger } from 'pino';
import { closeReasons } from '../gateway/close-reason.ts';
import type { ConnectionRecord } from '../gateway/shared/record-ring.ts';
import { type SignatureFault, signatureFaults } from '../gateway/stages/signature-fault.ts';
import { parseIp } from '../wire/ip-address.ts';
import { BadSignatureLog } from './bad-signature-log.ts';

type Line = Record<string, unknown> & { readonly msg: string };

function record(fault: SignatureFault | '', seconds = 0, clusterId = 'id-a'): ConnectionRecord {
  const address = { address: parseIp('192.0.2.1') as Uint8Array, port: 50_000 };
  return {
    listener: 0,
    slot: 0,
    backendSlot: 0,
    protocol: 0,
    reason: closeReasons.indexOf('bad-signature'),
    detail: signatureFaults.indexOf(fault),
    clientEndedFirst: false,
    logged: true,
    detailSeconds: seconds,
    peer: address,
    client: address,
    origin: undefined,
    bytesIn: 0,
    bytesOut: 0,
    ms: 0,
    dialMs: -1,
    host: '',
    clusterId,
  };
}

function given(t: TestContext): { lines: Line[]; log: BadSignatureLog; pass: (ms: number) => void } {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const lines: Line[] = [];
  const logger = { warn: (fields: object, msg: string) => lines.push({ ...fields, msg }) };
  const log = new BadSignatureLog(logger as unknown as Logger);
  return { lines, log, pass: ms => t.mock.timers.tick(ms) };
}

test('BadSignatureLog logs the client, the id, the cause and a fix', t => {
  const { lines, log } = given(t);
  log.take(record('wrong'));
  const [{ fix, ...line }] = lines;
  assert.deepEqual(line, {
    msg: 'bad signature',
    clusterId: 'id-a',
    client: '192.0.2.1:50000',
    why: 'wrong',
    count: 1,
  });
  assert.match(String(fix), /key was made for this cluster id.*secretFile/);
});

test('BadSignatureLog describes every fault, with seconds for clock faults', t => {
  const { lines, log } = given(t);
  for (const fault of signatureFaults.slice(1)) log.take(record(fault as SignatureFault, 3600));
  assert.deepEqual(
    lines.map(({ why }) => why),
    [
      'missing',
      'malformed',
      'wrong',
      'too old by 3540 s',
      'from the future by 3540 s',
      'replayed',
      'nonce table full',
      "cluster's share of the nonce table used up",
    ],
  );
  assert.match(String(lines[3].fix), /check the clocks: the agent's is 3600 s behind this gateway's, 60 s/);
  assert.match(String(lines[4].fix), /3600 s ahead of/);
});

test('BadSignatureLog logs each cause at once, then at most once a second with a count', t => {
  const { lines, log, pass } = given(t);
  const counts = () => lines.splice(0).map(({ clusterId, count }) => `${clusterId} ${count}`);
  log.take(record('wrong'));
  log.take(record('wrong'));
  log.take(record('wrong', 0, 'id-b'));
  log.take(record('replayed'));
  assert.deepEqual(counts(), ['id-a 1', 'id-a 1']);
  pass(999);
  assert.deepEqual(counts(), []);
  pass(1);
  assert.deepEqual(counts(), ['id-b 2']);
  log.take(record('wrong'));
  pass(1000);
  assert.deepEqual(counts(), ['id-a 1']);
  pass(2000);
  log.take(record('wrong'));
  assert.deepEqual(counts(), ['id-a 1']);
});

test('BadSignatureLog logs a used-up share separately for each cluster', t => {
  const { lines, log, pass } = given(t);
  for (const id of ['id-a', 'id-b', 'id-a', 'id-a']) log.take(record('share-used-up', 0, id));
  pass(1000);
  assert.deepEqual(
    lines.map(({ clusterId, count }) => `${clusterId} ${count}`),
    ['id-a 1', 'id-b 1', 'id-a 2'],
  );
});

test('BadSignatureLog logs pending counts when disposed, and ignores other close reasons', t => {
  const { lines, log } = given(t);
  log.take({ ...record('wrong'), reason: closeReasons.indexOf('done') });
  log.take(record(''));
  assert.deepEqual(lines, []);
  for (let i = 0; i < 5; i++) log.take(record('missing', 0, ''));
  log[Symbol.dispose]();
  assert.deepEqual(
    lines.map(({ count, clusterId }) => [count, clusterId]),
    [
      [1, null],
      [4, null],
    ],
  );
});
