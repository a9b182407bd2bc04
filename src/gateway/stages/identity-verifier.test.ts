import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterKey } from '../../identity/cluster-key.ts';
import { sign } from '../../identity/sign.ts';
import { parseSignature } from '../../wire/signature.ts';
import type { NonceShares } from '../shared/nonce-shares.ts';
import { NonceTable, nonceTableBytes } from '../shared/nonce-table.ts';
import { IdentityVerifier } from './identity-verifier.ts';

const NOW = 1_800_000_000_500;
const OLD = Buffer.from('the old secret, of at least 32 bytes');
const NEW = Buffer.from('the new secret, of at least 32 bytes');
const secrets = [NEW, OLD];
const claim = { id: 'a' };
const SLOT = 7;
const CLUSTERS = 3;

function given({ nonces = 1000, take = () => true }: { nonces?: number; take?: NonceShares['take'] } = {}) {
  const table = new NonceTable(new SharedArrayBuffer(nonceTableBytes(nonces)), 1);
  const clock = { now: NOW };
  const verifier = new IdentityVerifier(table, { take }, () => clock.now);
  const verify = (signature: Uint8Array, of = claim, by: readonly Uint8Array[] = secrets) =>
    verifier.verify(by, of, parseSignature(signature));
  const use = (signature: Uint8Array) => {
    const parsed = parseSignature(signature);
    assert.ok(parsed.kind === 'found');
    return verifier.use(parsed.value, SLOT, CLUSTERS);
  };
  /** Both steps, as for a connection that passes every other check. */
  const judge = (signature: Uint8Array, of = claim, by = secrets) =>
    verify(signature, of, by) ?? use(signature);
  return { clock, table, verify, use, judge };
}

const at = (timeMs: number, nonce?: Uint8Array, secret = NEW) =>
  sign(clusterKey(secret, claim.id), claim, timeMs, nonce);

test('IdentityVerifier.verify() accepts signatures within 60 s of the clock, to the ms', () => {
  const { judge } = given();
  for (const ms of [-60_000, -1, 0, 1, 60_000]) assert.equal(judge(at(NOW + ms)), undefined, `${ms} ms`);
  assert.deepEqual(judge(at(NOW - 60_001)), { fault: 'too-old', seconds: 61 });
  assert.deepEqual(judge(at(NOW + 60_001)), { fault: 'from-the-future', seconds: 61 });
  assert.deepEqual(judge(at(NOW - 3_600_000)), { fault: 'too-old', seconds: 3600 });
  assert.deepEqual(judge(at(0)), { fault: 'too-old', seconds: Math.ceil(NOW / 1000) });
});

test('IdentityVerifier.verify() accepts a signature once, for as long as its time is valid', () => {
  const { clock, judge } = given();
  const ahead = at(NOW + 60_000);
  assert.equal(judge(ahead), undefined);
  for (const later of [0, 1, 60_000, 119_999, 120_000]) {
    clock.now = NOW + later;
    assert.deepEqual(judge(ahead), { fault: 'replayed', seconds: 0 }, `${later} ms later`);
  }
  clock.now = NOW + 120_001;
  assert.equal(judge(ahead)?.fault, 'too-old');
});

test('IdentityVerifier.verify() accepts a nonce once, whatever else is signed with it', () => {
  const { judge } = given();
  const nonce = new Uint8Array(12).fill(7);
  assert.equal(judge(at(NOW, nonce)), undefined);
  assert.equal(judge(at(NOW + 1, nonce))?.fault, 'replayed');
  const other = { id: 'b' };
  assert.equal(judge(sign(clusterKey(NEW, 'b'), other, NOW, nonce), other)?.fault, 'replayed');
});

test('IdentityVerifier.verify() does not spend the nonce of a signature that is refused', () => {
  const { judge } = given();
  const nonce = new Uint8Array(12).fill(9);
  assert.equal(judge(sign(clusterKey(NEW, 'b'), claim, NOW, nonce))?.fault, 'wrong');
  assert.equal(judge(at(NOW - 61_000, nonce))?.fault, 'too-old');
  assert.equal(judge(at(NOW, nonce)), undefined);
});

test('IdentityVerifier.verify() accepts every current secret, and no removed one', () => {
  const { judge } = given();
  const byOld = () => at(NOW, undefined, OLD);
  assert.equal(judge(byOld()), undefined);
  assert.equal(judge(at(NOW)), undefined);
  assert.equal(judge(byOld(), claim, [NEW])?.fault, 'wrong');
  assert.equal(judge(byOld(), claim, [])?.fault, 'wrong');
  assert.equal(judge(byOld(), claim, [OLD]), undefined);
});

test('IdentityVerifier.verify() refuses the key of another cluster', () => {
  const { judge } = given();
  assert.equal(judge(sign(clusterKey(NEW, 'b'), { id: 'b' }, NOW))?.fault, 'wrong');
  assert.equal(judge(sign(clusterKey(NEW, 'b'), claim, NOW))?.fault, 'wrong');
});

test('IdentityVerifier.verify() reports the time of a signature only if the signature itself is right', () => {
  const { judge } = given();
  const forged = at(NOW - 3_600_000);
  forged[52] ^= 1;
  assert.deepEqual(judge(forged), { fault: 'wrong', seconds: 0 });
});

test('IdentityVerifier.verify() reports bytes that are no signature as malformed', () => {
  const { judge } = given();
  assert.equal(judge(new Uint8Array(52))?.fault, 'malformed');
  assert.equal(judge(new Uint8Array(53))?.fault, 'malformed');
});

test('IdentityVerifier.verify() spends no nonce: the same signature stays valid until its nonce is spent', () => {
  const { verify, use } = given();
  const signature = at(NOW);
  for (let i = 0; i < 3; i++) assert.equal(verify(signature), undefined);
  assert.equal(use(signature), undefined);
  assert.deepEqual(verify(signature), { fault: 'replayed', seconds: 0 });
});

test('IdentityVerifier.use() spends a nonce once, of two connections that were verified at the same time', () => {
  const { verify, use } = given();
  const signature = at(NOW);
  assert.deepEqual([verify(signature), verify(signature)], [undefined, undefined]);
  assert.deepEqual([use(signature), use(signature)?.fault], [undefined, 'replayed']);
});

test('IdentityVerifier.use() refuses a signature that expired since it was verified: it could not be remembered', () => {
  const { verify, use, clock } = given();
  const signature = at(NOW - 59_000);
  assert.deepEqual([verify(signature), verify(signature)], [undefined, undefined]);
  clock.now += 1000;
  assert.equal(use(signature), undefined);
  clock.now += 1;
  assert.deepEqual(use(signature), { fault: 'too-old', seconds: 61 });
});

test('IdentityVerifier.use() takes from the share of the cluster, and remembers nothing once that is used up', () => {
  const asked: unknown[] = [];
  let hasShare = false;
  const { verify, use } = given({
    take: (...question) => {
      asked.push(question);
      return hasShare;
    },
  });
  const signature = at(NOW);
  assert.deepEqual(use(signature), { fault: 'share-used-up', seconds: 0 });
  assert.deepEqual(asked, [[SLOT, CLUSTERS, Math.ceil((NOW + 60_000) / 1000), Math.floor(NOW / 1000)]]);
  assert.equal(verify(signature), undefined);
  hasShare = true;
  assert.equal(use(signature), undefined);
});

test('IdentityVerifier.use() refuses when there is no room to remember the nonce', () => {
  const { judge, clock } = given({ nonces: 1 });
  for (let i = 0; i < 63; i++) assert.equal(judge(at(NOW)), undefined);
  assert.deepEqual(judge(at(NOW)), { fault: 'no-room', seconds: 0 });
  clock.now += 62_000;
  assert.equal(judge(at(clock.now)), undefined);
});

test('IdentityVerifier.verify() still works with more ids than cached keys', () => {
  const { judge } = given({ nonces: 50_000 });
  for (let i = 0; i < 10_050; i++) {
    const of = { id: `id-${i % 10_020}` };
    assert.equal(judge(sign(clusterKey(OLD, of.id), of, NOW), of), undefined);
  }
});
