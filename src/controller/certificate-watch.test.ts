import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TestClock, testClock } from '../../testbed/test-clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { sampleCluster, sampleOrigin, sampleRoute } from '../cluster/clusters.samples.ts';
import { CertificateWatch } from './certificate-watch.ts';
import type { CertificateTarget, SeenCertificate } from './look-at-certificate.ts';

const INSIDE = 'kubernetes.default.svc';
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const LATER = Date.UTC(2027, 0, 1);

function tenant(
  name: string,
  hosts: readonly string[],
  backends = ['192.0.2.1:6443', '192.0.2.2:6443'],
): Cluster {
  return sampleCluster(`n.${name}`, {
    origin: sampleOrigin('kamaji', 'n', name),
    routes: [sampleRoute({ hosts, backends })],
    controlPlane: {
      isPaused: false,
      certSANs: ['*.lab'],
      servingCertificate: { namespace: 'n', secret: name, certKey: 'c', keyKey: 'k' },
    },
  });
}

type Answer = (
  target: CertificateTarget,
) => SeenCertificate | undefined | Promise<SeenCertificate | undefined>;

/** Looks are answered by `answer`, and noted as `address sni`. */
function given(answer: Answer, isUp: (backend: string) => boolean | null = () => true) {
  const clock: TestClock = testClock();
  const looks: string[] = [];
  const faults: unknown[] = [];
  let changes = 0;
  const bed = { answer, isUp };
  const watch = new CertificateWatch({
    clock,
    random: () => 1,
    isUp: (_cluster, _kind, backend) => bed.isUp(backend),
    changed: () => changes++,
    onFault: error => faults.push(error),
    look: async target => {
      looks.push(`${target.host} ${target.serverName}`);
      return bed.answer(target);
    },
  });
  const codes = () => watch.findings.map(({ cluster, code }) => `${cluster} ${code}`);
  const taken = () => looks.splice(0);
  return { bed, clock, looks, taken, watch, codes, faults, changes: () => changes };
}

/** A certificate for these names only. */
const has =
  (...names: readonly string[]): Answer =>
  target => ({ covered: target.names.filter(name => names.includes(name)), notAfter: LATER });
const all: Answer = ({ names }) => ({ covered: names, notAfter: LATER });

test('CertificateWatch looks once when a cluster appears, then every hour, and at no other clusters', async () => {
  const { clock, taken, watch, codes, changes } = given(all);
  const { controlPlane: _, ...other } = tenant('b', ['b.lab']);
  const clusters = [tenant('a', ['a.lab']), other];
  watch.update(clusters);
  await clock.advance(10_000);
  watch.update(clusters);
  await clock.advance(HOUR - MINUTE);
  assert.deepEqual(taken(), ['192.0.2.1 a.lab']);
  await clock.advance(2 * MINUTE);
  assert.deepEqual(taken(), ['192.0.2.1 a.lab']);
  assert.deepEqual([codes(), changes()], [[], 0]);
  assert.deepEqual([...watch.ends()], [{ cluster: 'n.a', notAfter: LATER }]);
  await watch[Symbol.asyncDispose]();
});

test('CertificateWatch asks for a name that is missing by that name, and again every five minutes', async () => {
  const { bed, clock, taken, watch, codes, changes } = given(has('a.lab', INSIDE));
  watch.update([tenant('a', ['a.lab', 'b.lab'])]);
  await clock.advance(MINUTE);
  assert.deepEqual(taken(), ['192.0.2.1 a.lab', '192.0.2.1 b.lab']);
  assert.deepEqual([codes(), changes()], [['n.a CertificateSanMissing'], 1]);
  // A server that has a certificate of its own for each name.
  bed.answer = ({ serverName }) => ({ covered: [serverName], notAfter: LATER });
  await clock.advance(5 * MINUTE);
  assert.deepEqual(taken(), ['192.0.2.1 a.lab', '192.0.2.1 b.lab', `192.0.2.1 ${INSIDE}`]);
  assert.deepEqual([codes(), changes()], [[], 2]);
  await watch[Symbol.asyncDispose]();
});

test('CertificateWatch reports the certificate that expires first', async () => {
  const { clock, watch, codes } = given(({ serverName }) => ({
    covered: [serverName],
    notAfter: serverName === 'b.lab' ? Date.UTC(2026, 0, 3) : LATER,
  }));
  watch.update([tenant('a', ['a.lab', 'b.lab'])]);
  await clock.advance(MINUTE);
  assert.deepEqual(codes(), ['n.a CertificateExpires']);
  await watch[Symbol.asyncDispose]();
});

test('CertificateWatch looks again soon when hosts, backends or certSANs change, but not at every flicker', async () => {
  const { clock, taken, watch } = given(all);
  watch.update([tenant('a', ['a.lab'])]);
  await clock.advance(MINUTE);
  taken();
  watch.update([tenant('a', ['c.lab'])]);
  await clock.advance(1000);
  assert.deepEqual(taken(), ['192.0.2.1 c.lab']);
  for (let i = 0; i < 89; i++) {
    watch.update([tenant('a', ['c.lab'], [`192.0.2.${i}:6443`])]);
    await clock.advance(100);
  }
  assert.deepEqual(taken(), []);
  await clock.advance(1000);
  assert.deepEqual(taken(), ['192.0.2.88 c.lab']);
  // The same in another object.
  watch.update([tenant('a', ['c.lab'], ['192.0.2.88:6443'])]);
  await clock.advance(MINUTE);
  assert.deepEqual(taken(), []);
  await watch[Symbol.asyncDispose]();
});

test('CertificateWatch tries another backend after a failure, less and less often, and forgets after three', async () => {
  const { bed, clock, taken, watch, codes, faults } = given(has(INSIDE));
  watch.update([tenant('a', ['a.lab'])]);
  await clock.advance(MINUTE);
  assert.deepEqual(codes(), ['n.a CertificateSanMissing']);
  taken();
  bed.answer = () => {
    bed.answer = () => undefined;
    throw new Error('a bug');
  };
  await clock.advance(4 * MINUTE + 31_000);
  assert.deepEqual(codes(), ['n.a CertificateSanMissing']);
  await clock.advance(MINUTE + 1000);
  assert.deepEqual(taken(), ['192.0.2.1 a.lab', '192.0.2.2 a.lab', '192.0.2.1 a.lab']);
  assert.deepEqual([codes(), faults.length], [[], 1]);
  await clock.advance(6 * HOUR);
  assert.ok(taken().length < 20);
  bed.answer = all;
  await clock.advance(HOUR);
  assert.equal(taken().length, 1);
  await watch[Symbol.asyncDispose]();
});

test('CertificateWatch leaves backends alone that are down', async () => {
  const { bed, clock, taken, watch } = given(all, backend => backend.startsWith('192.0.2.2'));
  watch.update([tenant('a', ['a.lab'])]);
  await clock.advance(MINUTE);
  assert.deepEqual(taken(), ['192.0.2.2 a.lab']);
  bed.isUp = () => false;
  watch.update([tenant('a', ['b.lab'])]);
  await clock.advance(MINUTE);
  assert.deepEqual(taken(), []);
  bed.isUp = () => null;
  await clock.advance(5 * MINUTE);
  assert.equal(taken().length, 1);
  await watch[Symbol.asyncDispose]();
});

test('CertificateWatch forgets a cluster that is gone, and one of the same name that is another object', async () => {
  const { clock, watch, codes, changes, bed } = given(has(INSIDE));
  watch.update([tenant('a', ['a.lab'])]);
  await clock.advance(MINUTE);
  const answer = Promise.withResolvers<SeenCertificate | undefined>();
  bed.answer = () => answer.promise;
  watch.update([{ ...tenant('a', ['a.lab']), origin: sampleOrigin('kamaji', 'n', 'successor') }]);
  await clock.advance(MINUTE);
  assert.deepEqual([codes(), changes()], [[], 2]);
  watch.update([]);
  answer.resolve({ covered: [], notAfter: 0 });
  await clock.advance(MINUTE);
  assert.deepEqual([codes(), changes()], [[], 2]);
  await watch[Symbol.asyncDispose]();
});

test('CertificateWatch looks at eight at most at once, in the order in which they came, and reports together', async () => {
  let [open, most] = [0, 0];
  const { clock, looks, watch, changes } = given(async target => {
    most = Math.max(most, ++open);
    await clock.wait(100, new AbortController().signal);
    open--;
    return has('a.lab')(target);
  });
  watch.update(Array.from({ length: 1000 }, (_, i) => tenant(`c${i}`, ['a.lab'])));
  await clock.advance(20_000);
  // Two connections for each, since one name is missing.
  const begun = looks.length / 2;
  assert.ok(begun > 300 && begun <= 648, String(begun));
  assert.equal(most, 8);
  await clock.advance(MINUTE);
  assert.equal(watch.findings.length, 1000);
  assert.ok(changes() < 60, String(changes()));
  await watch[Symbol.asyncDispose]();
});
