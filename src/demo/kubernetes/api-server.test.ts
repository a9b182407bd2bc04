import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { findProgram } from '../../../testbed/packages.ts';
import { run } from '../../../testbed/run.ts';
import { type TempDir, tempDir } from '../../../testbed/temp-dir.ts';
import { type ClusterCertificates, makeClusterCertificates } from '../cluster-certificates.ts';
import { firstLine, type Reply, visitHttp2, visitHttps } from '../demo-client.ts';
import { demoClusters } from '../demo-clusters.ts';
import { kubeconfig } from '../kubeconfig.ts';
import { untilPrinted } from '../kubectl.ts';
import { ApiServer, SERVED_BY } from './api-server.ts';
import { smallCluster } from './small-cluster.ts';

const WAIT_MS = 20_000;
const [, cluster] = demoClusters;
const node = cluster.controlPlanes[0];

describe('ApiServer', () => {
  let certificates: ClusterCertificates;
  let server: ApiServer;
  let step: () => void;

  before(async () => {
    certificates = await makeClusterCertificates(cluster);
    const small = smallCluster(cluster, Date.now());
    step = () => small.step(Date.now());
    step();
    const { state } = small;
    server = await ApiServer.start({ cluster: cluster.name, node, state, certificates, port: 0 });
  });

  after(() => server[Symbol.asyncDispose]());

  const visit = (path: string, further: object = {}) => ({
    to: { host: '127.0.0.1', port: server.port },
    name: cluster.apiHost,
    ca: certificates.ca,
    path,
    signal: AbortSignal.timeout(WAIT_MS),
    ...further,
  });

  test('lets in a client certificate of its own authority or its token, and nobody else', async () => {
    const stranger = await makeClusterCertificates(cluster);
    const token = (value: string) => ({ headers: { Authorization: `Bearer ${value}` } });
    const codes: [object, number][] = [
      [{}, 401],
      [{ client: certificates.client }, 200],
      [{ client: stranger.client }, 401],
      [token(certificates.token), 200],
      [token(stranger.token), 401],
      [token(''), 401],
    ];
    for (const [how, wanted] of codes) {
      const reply: Reply = await visitHttps(visit('/api/v1/nodes', how));
      assert.equal(reply.code, wanted);
      assert.equal(JSON.parse(reply.body).kind, wanted === 200 ? 'NodeList' : 'Status');
      assert.equal(reply.headers[SERVED_BY], node);
    }
  });

  test('speaks HTTP/2 too', async () => {
    const body = await visitHttp2(visit('/version'));
    assert.equal(JSON.parse(body).gitVersion, `v1.33.1+${cluster.name}`);
  });

  test('streams what happens after a version, and ends when asked to', async () => {
    const { client } = certificates;
    const list = JSON.parse((await visitHttps(visit('/api/v1/pods', { client }))).body);
    const from = `/api/v1/pods?watch=1&resourceVersion=${list.metadata.resourceVersion}`;
    const event = firstLine(visit(from, { client }));
    const ended = visitHttps(visit(`${from}&timeoutSeconds=1`, { client }));
    step();
    const { type, object } = JSON.parse(await event);
    assert.deepEqual([type, object.metadata.name], ['MODIFIED', 'tick-1']);
    assert.equal((await ended).code, 200);
    const old = await visitHttps(visit('/api/v1/pods?watch=1&resourceVersion=1', { client }));
    assert.deepEqual([old.code, JSON.parse(old.body).reason], [410, 'Expired']);
  });

  // Where the machine has one: what it makes of our answers is what counts.
  const program = findProgram('kubectl');
  if (program === undefined) return;

  describe('with a real kubectl', () => {
    let dir: TempDir;

    before(async () => {
      dir = await tempDir();
      const place = { host: '127.0.0.1', port: server.port };
      await writeFile(dir.file('kubeconfig'), kubeconfig(cluster, certificates, place));
    });

    after(() => dir[Symbol.asyncDispose]());

    const allArgs = (args: string) =>
      `--kubeconfig ${dir.file('kubeconfig')} --cache-dir ${dir.file('cache')} ${args}`.split(' ');
    const kubectl = async (args: string) => {
      const { code, stdout, stderr } = await run(program, allArgs(args));
      assert.equal(code, 0, `kubectl ${args}: ${stderr}`);
      return stdout.toString();
    };

    const printed: [args: string, pattern: RegExp][] = [
      ['get nodes', /^managed1-cp-0 +Ready +control-plane +12d +v1\.33\.1$/m],
      ['get pods -A -o wide', /^NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE +IP +NODE/],
      [
        'get pods -A -o wide',
        /^kube-system +etcd-managed1-cp-0 +1\/1 +Running +0 +12d +10\.20\.0\.2 +managed1-cp-0/m,
      ],
      ['get pods -l app=hello -o name', /^(pod\/hello-\S+\n){2}$/],
      ['get namespaces', /^kube-system +Active +12d$/m],
      ['get all', /^deployment\.apps\/hello +2\/2 +2 +2 +5h$/m],
      ['get pods -o yaml', /^apiVersion: v1$/m],
      ['version', /^Server Version: v1\.33\.1\+managed1$/m],
      ['api-resources', /^pods +po +v1 +true +Pod$/m],
      ['cluster-info', /CoreDNS.* is running at /],
      ['auth whoami', /^Username +demo-admin$/m],
      ['describe node managed1-cp-0', /^Non-terminated Pods: +\(2 in total\)$/m],
      ['describe pod etcd-managed1-cp-0 -n kube-system', /^Status: +Running$/m],
      ['logs deploy/hello --tail=2', /^(\S+ hello-\S+ in managed1 .*\n){2}$/],
      ['get --raw /readyz', /^ok$/],
    ];
    for (const [args, pattern] of printed) {
      test(`answers kubectl ${args}: ${pattern}`, async () => assert.match(await kubectl(args), pattern));
    }

    test('tells kubectl what is not there, and that it can only be read', async () => {
      const missing = await run(program, allArgs('get pod nope'));
      assert.match(missing.stderr, /^Error from server \(NotFound\): pods "nope" not found$/m);
      const denied = await run(program, allArgs('delete pod tick-1'));
      assert.match(denied.stderr, /\(MethodNotAllowed\): .* can only be read$/m);
    });

    test('shows kubectl get pods --watch what changes', async () => {
      const args = allArgs('get pods --watch --no-headers -l job=tick');
      const lines = (text: string) => text.split('\n').length - 1;
      const text = await untilPrinted(
        AbortSignal.timeout(WAIT_MS),
        printed => lines(printed) > 1,
        (signal, reported) =>
          new Promise((resolve, reject) => {
            const child = spawn(program, args, { signal, stdio: ['ignore', 'pipe', 'ignore'] });
            let heard = '';
            child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
              heard += chunk;
              // Once it has printed its list, it watches.
              if (lines(heard) === 1) step();
              reported(heard);
            });
            child.once('error', () => {});
            child.once('close', () => (signal.aborted ? reject(signal.reason) : resolve(heard)));
          }),
      );
      assert.match(text, /^tick-\d+ .*\ntick-\d+ /);
    });
  });
});
