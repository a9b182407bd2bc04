import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
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

test('Explainer.explain() names cluster, route and backend of a served connection', () => {
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

test('Explainer.explain() names the backend only if the client determines it', () => {
  assert.equal(explainer.explain({ host: 'api.a.lab', protocol: 'tls' }).backend, null);
  const { backend } = explainer.explain({ host: 'api.a.lab', protocol: 'tls', from: '10.0.0.1' });
  assert.match(String(backend), /^192\.0\.2\.[12]:6443$/);
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

test('Explainer.explain() sends unclaimed hosts to "*", but never a CONNECT', () => {
  const listeners = [
    { on: ':1', balancers: [], agents: ['0.0.0.0/0'], idTlv: [0x20] },
    { on: ':2', balancers: [], agents: [], idTlv: [0x20], only: ['api'] },
  ];
  const rest = new Explainer(
    [
      sampleCluster('a', { id: 'id-a', routes: [sampleRoute({ hosts: ['api.a.lab'] })] }),
      sampleCluster('b', { routes: [sampleRoute({ kind: 'rest', hosts: ['*'] })] }),
    ],
    listeners,
  );
  const explained = (question: Parameters<Explainer['explain']>[0]) => {
    const { served, reason, cluster, route, stages } = rest.explain(question);
    const text = stages.find(({ stage }) => stage === 'route')?.text;
    return [served ? `${cluster}/${route}` : reason, text];
  };
  for (const host of ['x.lab', '192.0.2.7', ''])
    assert.deepEqual(explained({ host, protocol: 'tls' }), [
      'b/rest',
      "catch-all '*' → cluster 'b', route 'rest'",
    ]);
  assert.deepEqual(explained({ host: 'x.lab', protocol: 'tls', on: ':2' }), [
    'unknown-host',
    "'x.lab' falls under '*' of cluster 'b', but :2 does not serve 'rest': its only is api",
  ]);
  assert.deepEqual(explained({ host: 'x.lab', protocol: 'http' }), [
    'unknown-host',
    "'x.lab' falls under '*' of cluster 'b', but its 'rest' is reached only by TLS",
  ]);
  assert.deepEqual(explained({ host: 'x.lab', protocol: 'connect' }), [
    'unknown-host',
    "no cluster has 'x.lab'",
  ]);
  assert.deepEqual(explained({ host: 'x.lab', id: 'id-a', protocol: 'tls' })[0], 'a/api');
});

test('Explainer.explain() leads an id to the api of its cluster', () => {
  const explanation = explainer.explain({
    host: 'kubernetes.default.svc',
    id: 'id-a',
    protocol: 'tls',
    from: '10.1.0.1',
  });
  assert.equal(explanation.served, true);
  assert.equal(explanation.route, 'api');
});

test('Explainer.explain() states that an id must be signed, but only if one is given', () => {
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

test('Explainer.explain() refuses questions about unknown listeners and invalid addresses', () => {
  assert.throws(() => explainer.explain({ host: 'a', protocol: 'tls', on: ':1' }), QuestionError);
  assert.throws(() => explainer.explain({ host: 'a', protocol: 'tls', from: '1.2.3' }), QuestionError);
});

describe('Explainer.explain() with the end of the tunnels', () => {
  const listeners = [
    { on: ':6443', balancers: [], agents: ['0.0.0.0/0'], idTlv: [0x20], only: ['api'] },
    { on: ':8443', balancers: [], agents: [], idTlv: [], only: [] },
  ];
  const routes = [sampleRoute({ hosts: ['api.a.lab'] })];
  const tunnelling = new Explainer([sampleCluster('a', { routes })], listeners, {
    tunnelHosts: ['tunnel.lab', '*.tunnels.lab'],
  });

  test('serves its hosts on every listener, for no cluster', () => {
    for (const [host, on] of [
      ['Tunnel.lab', ':6443'],
      ['x.tunnels.lab', ':8443'],
    ] as const) {
      const explanation = tunnelling.explain({ host, protocol: 'tls', on });
      const { served, cluster, route, backend } = explanation;
      assert.deepEqual([served, cluster, route, backend], [true, null, null, null]);
      assert.match(explanation.stages[2].text, /^tunnel host '.*' → the end of the agents' tunnels$/);
      assert.equal(stageOf(explanation)?.stage, 'dial');
    }
  });

  test('refuses them in other protocols, and all else on a listener of their own', () => {
    for (const [question, text] of [
      [{ host: 'tunnel.lab', protocol: 'http' }, "'tunnel.lab' is a tunnel host, reached only by TLS"],
      [{ host: 'tunnel.lab', protocol: 'connect' }, "'tunnel.lab' is a tunnel host, reached only by TLS"],
      [
        { host: 'api.a.lab', protocol: 'tls', on: ':8443' },
        "'api.a.lab' is a host of cluster 'a', but :8443 does not serve 'api'",
      ],
    ] as const) {
      const explanation = tunnelling.explain(question);
      assert.equal(explanation.reason, 'unknown-host');
      assert.equal(stageOf(explanation)?.text, text);
    }
  });
});

test('Explainer.explain() states why a known host is not reachable', () => {
  const known = new Explainer(
    [
      sampleCluster('a', {
        id: 'id-a',
        routes: [
          sampleRoute({ kind: 'oauth', hosts: ['oauth.a.lab'], alpn: ['one', 'two'] }),
          sampleRoute({ kind: 'apps-http', hosts: ['web.a.lab'] }),
        ],
      }),
    ],
    [{ on: ':443', balancers: [], agents: ['0.0.0.0/0'], idTlv: [0x20] }],
  );
  for (const [question, text] of [
    [
      { host: 'oauth.a.lab', protocol: 'tls' },
      "'oauth.a.lab' is a host of cluster 'a', but its 'oauth' is reached only with the ALPN one or two",
    ],
    [
      { host: 'oauth.a.lab', protocol: 'http' },
      "'oauth.a.lab' is a host of cluster 'a', but its 'oauth' is reached only by TLS",
    ],
    [
      { host: 'oauth.a.lab', protocol: 'connect' },
      "'oauth.a.lab' is a name of cluster 'a', but its 'oauth' is reached only by CONNECT with a name under 'connect'",
    ],
    [
      { host: 'web.a.lab', protocol: 'tls' },
      "'web.a.lab' is a host of cluster 'a', but its 'apps-http' is reached only by HTTP",
    ],
    [{ host: '', id: 'id-a', protocol: 'tls' }, "the cluster with id 'id-a' has no route 'api'"],
    [{ host: 'b.elsewhere', protocol: 'tls' }, "no cluster has 'b.elsewhere'"],
  ] as const) {
    assert.equal(stageOf(known.explain(question))?.text, text);
  }
});

test('Explainer.explain() skips backends that are down, unless all are', () => {
  const backends = ['192.0.2.1:1', '192.0.2.2:1', '192.0.2.3:1'];
  const turns = sampleRoute({ kind: 'turns', hosts: ['turns.lab'], backends });
  const routes = [
    sampleRoute({ hosts: ['hashed.lab'], backends }),
    { ...turns, pool: { ...turns.pool, balance: 'round-robin' as const } },
    sampleRoute({ kind: 'single', hosts: ['single.lab'], backends: backends.slice(0, 1) }),
  ];
  const down = new Set<string>();
  const healthy = new Explainer(
    [sampleCluster('a', { routes })],
    [{ on: ':443', balancers: [], agents: [], idTlv: [] }],
    {
      healthOf: (cluster, _, backend) =>
        cluster === 'a' && down.has(backend) ? { up: false, why: 'connection refused' } : { up: null },
    },
  );
  const dialled = (host: string) => {
    const explanation = healthy.explain({ host, protocol: 'tls', from: '192.0.2.9' });
    assert.equal(explanation.served, true);
    return [explanation.backend, stageOf(explanation)?.text];
  };

  const [first] = dialled('hashed.lab');
  down.add(String(first));
  const [second, text] = dialled('hashed.lab');
  assert.notEqual(second, first);
  assert.equal(text, `${second} first, by source; down and tried last: ${first} (connection refused)`);
  down.add(String(second));
  const third = backends.find(backend => !down.has(backend));
  const refused = (names: readonly string[]) => names.map(name => `${name} (connection refused)`).join(', ');
  const others = refused(backends.filter(backend => backend !== third));
  assert.deepEqual(dialled('turns.lab'), [third, `${third}; down and tried last: ${others}`]);

  for (const backend of backends) down.add(backend);
  for (const [host, text] of [
    ['hashed.lab', `every backend is down, but still tried: ${refused(backends)}`],
    ['single.lab', `the only backend is down, but still tried: ${refused(backends.slice(0, 1))}`],
  ]) {
    const explanation = healthy.explain({ host, protocol: 'tls', from: '192.0.2.9' });
    assert.deepEqual([explanation.served, explanation.reason], [false, 'connect-failed']);
    const last = { stage: 'dial', ok: false, text: `would fail: connect-failed; ${text}` };
    assert.deepEqual(stageOf(explanation), last);
  }
});

describe('Explainer.explain() helps with an unknown name', () => {
  const helping = new Explainer(
    [
      sampleCluster('blue', {
        id: 'id-blue-1',
        routes: [
          sampleRoute({ hosts: ['api.blue.lab'], connect: ['tunnel.blue.svc'] }),
          sampleRoute({ kind: 'apps-https', hosts: ['*.apps.blue.lab'] }),
          sampleRoute({ kind: 'apps-http', hosts: ['*.web.blue.lab'] }),
        ],
      }),
    ],
    [{ on: ':443', balancers: [], agents: ['0.0.0.0/0'], idTlv: [0x20] }],
  );
  for (const [question, text] of [
    [
      { host: 'api.bleu.lab', protocol: 'tls' },
      "no cluster has 'api.bleu.lab'; did you mean 'api.blue.lab' of cluster 'blue'?",
    ],
    [
      { host: 'shop.aps.blue.lab', protocol: 'tls' },
      "no cluster has 'shop.aps.blue.lab'; did you mean '*.apps.blue.lab' of cluster 'blue'?",
    ],
    [
      { host: 'a.shop.apps.blue.lab', protocol: 'tls' },
      "no cluster has 'a.shop.apps.blue.lab'; exactly one label in front of 'apps.blue.lab' is covered by '*.apps.blue.lab' of cluster 'blue'",
    ],
    [
      { host: 'Apps.blue.lab.', protocol: 'tls' },
      "no cluster has 'Apps.blue.lab.'; the name 'apps.blue.lab' itself is not covered by '*.apps.blue.lab' of cluster 'blue'",
    ],
    [
      { host: 'a.b.web.blue.lab', protocol: 'http' },
      "no cluster has 'a.b.web.blue.lab'; exactly one label in front of 'web.blue.lab' is covered by '*.web.blue.lab' of cluster 'blue'",
    ],
    [
      { host: 'tunel.blue.svc', protocol: 'connect' },
      "no cluster has 'tunel.blue.svc'; did you mean 'tunnel.blue.svc' of cluster 'blue'?",
    ],
    [{ host: 'bleu', protocol: 'connect' }, "no cluster has 'bleu'; did you mean 'blue' of cluster 'blue'?"],
    [
      { host: '', id: 'id-blue-2', protocol: 'tls' },
      "no cluster has the id 'id-blue-2'; did you mean 'id-blue-1' of cluster 'blue'?",
    ],
    [{ host: 'something.else.example', protocol: 'tls' }, "no cluster has 'something.else.example'"],
    [{ host: 'api.red.lab', protocol: 'tls' }, "no cluster has 'api.red.lab'"],
  ] as const) {
    test(`${question.protocol} ${question.host || question.id}`, () => {
      assert.equal(stageOf(helping.explain(question))?.text, text);
    });
  }

  test('and compares nothing with a text that cannot be a name', () => {
    const long = 'x'.repeat(100_000);
    for (const question of [
      { host: long, protocol: 'tls' },
      { host: long, protocol: 'http' },
      { host: long, protocol: 'connect' },
      { host: '', id: long, protocol: 'tls' },
    ] as const) {
      assert.doesNotMatch(String(stageOf(helping.explain(question))?.text), /did you mean/);
    }
  });

  test('in a large table, without searching all of it', () => {
    const routes = (name: string) => [sampleRoute({ hosts: [`api.${name}.lab.example.com`] })];
    const many = Array.from({ length: 50_000 }, (_, i) =>
      sampleCluster(`c${i}`, { routes: routes(`c${i}`) }),
    );
    const large = new Explainer(many, [{ on: ':443', balancers: [], agents: [], idTlv: [] }]);
    const { stages } = large.explain({ host: 'ap.c77.lab.example.com', protocol: 'tls' });
    assert.match(
      String(stages.at(-1)?.text),
      /; did you mean 'api\.c77\.lab\.example\.com' of cluster 'c77'/,
    );
  });
});

test('Explainer.explain() names the list and the entry', () => {
  const listing = new Explainer(
    [
      sampleCluster('a', {
        allow: ['10.0.0.0/8', '192.168.0.0/16'],
        routes: [
          sampleRoute({ hosts: ['api.a.lab'] }),
          { ...sampleRoute({ kind: 'oauth', hosts: ['oauth.a.lab'] }), allow: ['10.1.0.0/16'] },
        ],
      }),
      sampleCluster('closed', { allow: [], routes: [sampleRoute({ hosts: ['closed.lab'] })] }),
      sampleCluster('six', { allow: ['2001:db8::/32'], routes: [sampleRoute({ hosts: ['six.lab'] })] }),
    ],
    [
      { on: ':443', balancers: [], agents: ['10.64.0.0/16'], idTlv: [0x20], only: ['oauth'] },
      { on: ':6443', balancers: [], agents: [], idTlv: [0x20] },
    ],
  );
  for (const [question, ok, text] of [
    [{ host: 'api.a.lab', from: '10.1.2.3' }, true, "10.1.2.3 is in allow of cluster 'a', by 10.0.0.0/8"],
    [
      { host: 'oauth.a.lab', from: '10.1.2.3' },
      true,
      "10.1.2.3 is in allow of cluster 'a', by 10.0.0.0/8; and in allow of its route 'oauth', by 10.1.0.0/16",
    ],
    [
      { host: 'api.a.lab', from: '11.1.2.3' },
      false,
      "11.1.2.3 matches no entry of allow of cluster 'a', which has 10.0.0.0/8, 192.168.0.0/16",
    ],
    [
      { host: 'oauth.a.lab', from: '10.2.2.3' },
      false,
      "10.2.2.3 matches no entry of allow of its route 'oauth', which has 10.1.0.0/16",
    ],
    [
      { host: 'closed.lab', from: '10.2.2.3' },
      false,
      "10.2.2.3 is not in allow of cluster 'closed', which is empty",
    ],
    [
      { host: 'six.lab', from: '10.2.2.3' },
      false,
      "10.2.2.3 matches no entry of allow of cluster 'six', which has 2001:db8::/32; 10.2.2.3 is IPv4, but the list has only IPv6 networks",
    ],
    [{ host: 'api.a.lab' }, true, "allow of cluster 'a' applies: name the client to check it"],
  ] as const) {
    const stage = listing.explain({ protocol: 'tls', ...question }).stages[3];
    assert.deepEqual([stage.stage, stage.ok, stage.text], ['admit', ok, text]);
  }
  for (const [question, ok, text] of [
    [
      { from: '10.2.2.3', on: ':443' },
      false,
      "CONNECT to 'a'; 10.2.2.3 matches no entry of agents of :443, which has 10.64.0.0/16",
    ],
    [
      { from: '10.2.2.3', on: ':6443' },
      false,
      "CONNECT to 'a'; 10.2.2.3 is not in agents of :6443, which is empty",
    ],
    [{ on: ':6443' }, false, "CONNECT to 'a'; agents of :6443 is empty"],
    [
      { from: '10.64.2.3', on: ':443' },
      true,
      "CONNECT to 'a'; 10.64.2.3 is in agents of :443, by 10.64.0.0/16",
    ],
    [{ on: ':443' }, true, "CONNECT to 'a'; only for agents of :443: 10.64.0.0/16"],
  ] as const) {
    const stage = listing.explain({ protocol: 'connect', host: 'a', ...question }).stages[1];
    assert.deepEqual([stage.stage, stage.ok, stage.text], ['identify', ok, text]);
  }
  const hidden = listing.explain({ protocol: 'tls', host: 'api.a.lab', on: ':443' });
  assert.equal(
    stageOf(hidden)?.text,
    "'api.a.lab' is a host of cluster 'a', but :443 does not serve 'api': its only is oauth",
  );
});

test('Explainer.explain() chooses the listener by destination port', () => {
  const routes = [sampleRoute({ hosts: ['api.a.lab'] })];
  const ports = new Explainer(
    [sampleCluster('a', { routes })],
    [':80', '192.0.2.1:443', ':6443'].map(on => ({ on, balancers: [], agents: [], idTlv: [] })),
  );
  const accepted = (port?: number) =>
    ports.explain({ host: 'api.a.lab', protocol: 'tls', ...(port !== undefined && { port }) }).stages[0].text;
  assert.equal(accepted(), 'on :80');
  assert.equal(accepted(443), 'on 192.0.2.1:443');
  assert.equal(accepted(6443), 'on :6443');
  assert.equal(accepted(8443), 'on :80; no listener has port 8443');
});
