import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { Explainer, QuestionError } from './explain.ts';

const explainer = new Explainer(
  [
    sampleCluster('a', {
      id: 'id-a',
      allow: ['10.0.0.0/8'],
      limits: { connections: 5 },
      routes: [
        sampleRoute({ hosts: ['api.a.lab'], backends: ['192.0.2.1:6443', '192.0.2.2:6443'] }),
        sampleRoute({ kind: 'apps-https', hosts: ['*.apps.a.lab'], backends: [] }),
      ],
    }),
    sampleCluster('b', { routes: [sampleRoute({ hosts: ['api.b.lab'] })] }),
  ],
  [
    { on: ':443', balancers: [], agents: [], idTlv: [0x20], only: ['apps-https'] },
    { on: ':6443', balancers: [], agents: ['10.1.0.0/16'], idTlv: [0x20] },
  ],
);

const stageOf = (explanation: ReturnType<Explainer['explain']>) => explanation.stages.at(-1);

test('Explainer.explain() names cluster, route and backend of what is served', () => {
  const explanation = explainer.explain({ host: 'API.b.lab.', protocol: 'tls' });
  assert.deepEqual(explanation, {
    served: true,
    reason: null,
    cluster: 'b',
    route: 'api',
    backend: '192.0.2.1:6443',
    stages: [
      { stage: 'accept', ok: true, text: 'on :6443' },
      { stage: 'identify', ok: true, text: "TLS with server name 'API.b.lab.'" },
      { stage: 'route', ok: true, text: "exact host 'api.b.lab' → cluster 'b', route 'api'" },
      { stage: 'admit', ok: true, text: 'anyone is allowed' },
      { stage: 'dial', ok: true, text: '192.0.2.1:6443' },
    ],
  });
});

test('Explainer.explain() names the backend only where the client decides it', () => {
  assert.equal(explainer.explain({ host: 'api.a.lab', protocol: 'tls' }).backend, null);
  const { backend } = explainer.explain({ host: 'api.a.lab', protocol: 'tls', from: '10.0.0.1' });
  assert.match(String(backend), /^192\.0\.2\.[12]:6443$/);
});

test('Explainer.explain() passes over backends that are down, as a connection does', () => {
  const backends = ['192.0.2.1:6443', '192.0.2.2:6443', '192.0.2.3:6443'];
  const down = new Set<string>();
  const routes = [sampleRoute({ hosts: ['api.a.lab'], backends })];
  const listener = { on: ':6443', balancers: [], agents: [], idTlv: [0x20] };
  const living = new Explainer([sampleCluster('a', { routes })], [listener], (cluster, route, backend) => {
    assert.deepEqual([cluster, route], ['a', 'api']);
    return !down.has(backend);
  });
  const explain = (from?: string) =>
    living.explain({ host: 'api.a.lab', protocol: 'tls', ...(from !== undefined && { from }) });
  const first = String(explain('10.0.0.1').backend);
  down.add(first);
  const second = String(explain('10.0.0.1').backend);
  assert.notEqual(second, first);
  assert.equal(stageOf(explain('10.0.0.1'))?.text, `${second} first, by source; down: ${first}`);
  down.add(second);
  const last = String(backends.find(text => !down.has(text)));
  // Nobody is named, and only one can be meant.
  assert.equal(explain().backend, last);
  down.add(last);
  assert.equal(explain('10.0.0.1').backend, first);
  assert.match(String(stageOf(explain('10.0.0.1'))?.text), /; all are down, and tried all the same$/);
});

test('Explainer.explain() gives the reason and the stage of a refusal', () => {
  for (const [question, reason, stage] of [
    [{ host: 'nowhere.lab', protocol: 'tls' }, 'unknown-host', 'route'],
    [{ host: '192.0.2.7', protocol: 'tls' }, 'no-sni', 'route'],
    [{ host: 'api.a.lab', protocol: 'tls', on: ':443' }, 'unknown-host', 'route'],
    [{ host: 'api.a.lab', protocol: 'tls', from: '192.0.2.9' }, 'not-allowed', 'admit'],
    [{ host: 'x.apps.a.lab', protocol: 'tls', from: '10.0.0.1' }, 'no-backend', 'dial'],
    [{ host: 'id-a', protocol: 'connect', from: '192.0.2.9' }, 'untrusted-agent', 'identify'],
    [{ host: 'nobody', protocol: 'connect', from: '10.1.0.1', on: ':6443' }, 'unknown-host', 'route'],
    [{ host: '', id: 'id-x', protocol: 'tls', from: '10.1.0.1', on: ':6443' }, 'unknown-cluster', 'route'],
  ] as const) {
    const explanation = explainer.explain(question);
    assert.equal(explanation.served, false);
    assert.equal(explanation.reason, reason, JSON.stringify(question));
    assert.deepEqual([stageOf(explanation)?.stage, stageOf(explanation)?.ok], [stage, false]);
  }
});

test('Explainer.explain() follows an id to the api of its cluster', () => {
  const explanation = explainer.explain({
    host: 'kubernetes.default.svc',
    id: 'id-a',
    protocol: 'tls',
    from: '10.1.0.1',
  });
  assert.equal(explanation.served, true);
  assert.equal(explanation.route, 'api');
});

test('Explainer.explain() says where an id must be signed, and nothing of it to those who name none', () => {
  const routes = [sampleRoute({ hosts: ['api.a.lab'] })];
  const cluster = sampleCluster('a', { id: 'id-a', identityRequired: true, routes });
  const listener = { on: ':6443', balancers: [], agents: ['0.0.0.0/0'], idTlv: [0x20] };
  const strict = new Explainer([cluster], [listener]);
  const routeText = (question: Parameters<Explainer['explain']>[0]) =>
    strict.explain(question).stages[2].text;
  const signed = /, and the id must be signed$/;
  assert.match(routeText({ host: '', id: 'id-a', protocol: 'tls' }), signed);
  assert.match(routeText({ host: 'id-a', protocol: 'connect' }), signed);
  assert.doesNotMatch(routeText({ host: 'api.a.lab', protocol: 'tls' }), signed);
});

test('Explainer.explain() refuses questions about what is not there', () => {
  assert.throws(() => explainer.explain({ host: 'a', protocol: 'tls', on: ':1' }), QuestionError);
  assert.throws(() => explainer.explain({ host: 'a', protocol: 'tls', from: '1.2.3' }), QuestionError);
});
