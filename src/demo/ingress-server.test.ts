import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeClusterCertificates } from './cluster-certificates.ts';
import { visitHttp, visitHttp2, visitHttps, webSocketTexts } from './demo-client.ts';
import { demoClusters, helloHost } from './demo-clusters.ts';
import { CLUSTER_HEADER, startIngress } from './ingress-server.ts';
import { konnectivityText, startKonnectivity } from './konnectivity-server.ts';
import { placeOf } from './place.ts';

const [, cluster] = demoClusters;
const visit = { name: helloHost(cluster), signal: AbortSignal.timeout(20_000) };

test('startIngress() serves its page and a WebSocket over http', async t => {
  const server = await startIngress(cluster, undefined);
  t.after(() => server.close());
  const to = placeOf(server);
  const headers = { 'X-Forwarded-For': '192.0.2.1', Accept: 'text/html,*/*' };
  const { code, headers: answered, body } = await visitHttp({ ...visit, to, headers });
  assert.deepEqual([code, answered[CLUSTER_HEADER]], [200, 'managed1']);
  assert.match(body, /<h1>managed1<\/h1>/);
  assert.ok(body.includes('192.0.2.1') && body.includes(`${helloHost(cluster)}:${to.port}`));
  assert.equal((await visitHttp({ ...visit, to, path: '/nowhere' })).code, 404);
  assert.deepEqual(await webSocketTexts({ ...visit, to }, 2), ['managed1, tick 1', 'managed1, tick 2']);
});

test('startIngress() serves the same over https with the cluster’s own certificate, and text without Accept: text/html', async t => {
  const { ca, ingress } = await makeClusterCertificates(cluster);
  const server = await startIngress(cluster, ingress);
  t.after(() => server.close());
  const to = placeOf(server);
  const { code, body } = await visitHttps({ ...visit, to, ca });
  assert.equal(code, 200);
  assert.match(body, /^You have reached managed1\n  backend  managed1-worker-0 /);
  assert.deepEqual(await webSocketTexts({ ...visit, to, ca }, 1), ['managed1, tick 1']);
});

test('startKonnectivity() speaks HTTP/2 and names its cluster', async t => {
  const { ca, controlPlane } = await makeClusterCertificates(cluster);
  const server = await startKonnectivity(cluster, controlPlane);
  t.after(() => server.close());
  const body = await visitHttp2({ ...visit, to: placeOf(server), name: cluster.konnectivityHost, ca });
  assert.equal(body, konnectivityText(cluster));
});
