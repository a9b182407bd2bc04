// The API server: does it answer through the gateway, is it ready, and does it know whom the kubeconfig names?

import type { Cluster } from '../cluster/cluster.ts';
import { isNameInside, patternFor } from '../cluster/hostname.ts';
import { wordsOf } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { type Resource, resource } from '../kube/resources.ts';
import type { Report } from './check.ts';
import type { Address, Network } from './network.ts';
import type { Tenant } from './open-tenant.ts';
import { routeOfKind } from './world.ts';

interface SelfSubjectReview extends KubeObject {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}
const selfSubjectReviews: Resource<SelfSubjectReview> = resource(
  'authentication.k8s.io/v1',
  'selfsubjectreviews',
  'SelfSubjectReview',
);

/** Of an API server that does not answer strangers. */
const ANSWERS_NOBODY: ReadonlySet<number> = new Set([401, 403]);

/** When the server answered, by its own clock and by ours; undefined where it did not say. */
export async function checkApi(
  at: Address,
  host: string,
  network: Pick<Network, 'ask'>,
  now: () => number,
  report: Report,
): Promise<ClockReading | undefined> {
  const sentAt = now();
  const ready = await network.ask({ at, serverName: host, path: '/readyz' });
  const clock = ready.ok ? { theirs: ready.date, before: sentAt, after: now() } : undefined;
  if (!ready.ok) {
    const fix = 'Look at the log of the API server, and at that of the gateway for this connection';
    report.fail('api', 'ApiNoAnswer', `${host} gives no answer to GET /readyz: ${ready.text}`, fix);
    return undefined;
  }
  const { status, body } = ready;
  if (status >= 500) {
    const failing = [...body.matchAll(/^\[-\](\S+)/gm)].map(match => match[1]).slice(0, 5);
    const why = failing.length > 0 ? ` (${failing.join(', ')})` : '';
    const fix = 'Ask what is missing: kubectl get --raw "/readyz?verbose"; most often it is etcd';
    report.fail(
      'api',
      'ApiNotReady',
      `The API server behind ${host} is not ready: /readyz answers ${status}${why}`,
      fix,
    );
    return clock;
  }
  if (status !== 200 && !ANSWERS_NOBODY.has(status)) {
    const fix = 'Compare the backends of api with the addresses of the API servers';
    report.fail('api', 'ApiUnexpected', `${host} leads to no API server: /readyz answers ${status}`, fix);
    return clock;
  }
  const version = await versionOf(at, host, network);
  const answers = status === 200 ? 'is ready' : `answers ${status} to strangers, as it should`;
  report.ok('api', `${host} ${answers}${version}`);
  return clock;
}

export interface ClockReading {
  /** In ms since 1970, cut to a second; NaN where the server does not say. */
  readonly theirs: number;
  readonly before: number;
  readonly after: number;
}

async function versionOf(at: Address, host: string, network: Pick<Network, 'ask'>): Promise<string> {
  const answer = await network.ask({ at, serverName: host, path: '/version' });
  if (!answer.ok || answer.status !== 200) return '';
  const found = /"gitVersion"\s*:\s*"(v[\w.+-]{1,40})"/.exec(answer.body)?.[1];
  return found === undefined ? '' : `, Kubernetes ${found}`;
}

/** False where the credentials are of no use. */
export async function checkWhoami(cluster: Cluster, tenant: Tenant, report: Report): Promise<boolean> {
  const { api, from, server } = tenant;
  const review: SelfSubjectReview = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'SelfSubjectReview',
    metadata: { name: '' },
  };
  const answer = await api.create(selfSubjectReviews, review);
  if (!answer.ok) {
    const { fault } = answer;
    if (fault.status === 401) {
      const fix =
        'Fetch the kubeconfig again: its certificate or token has expired, or belongs to another cluster';
      report.fail(
        'api',
        'CredentialsRefused',
        `The API server does not accept the ${from}: ${wordsOf(fault)}`,
        fix,
      );
      return false;
    }
    if (fault.reason === 'Untrusted') {
      const fix = 'The kubeconfig is of another cluster or outdated: fetch it again';
      report.fail(
        'api',
        'CertificateUntrusted',
        `The ${from} does not trust the API server: ${fault.message}`,
        fix,
      );
      return false;
    }
    // 404: a server before 1.28, or a stand-in, has no such resource, and answers.
    if (fault.status === 0) {
      const text = `The API server does not answer with the ${from}: ${wordsOf(fault)}`;
      report.fail('api', 'TenantUnreachable', text, 'Look at the log of the API server and of the gateway');
      return false;
    }
  } else {
    const name = answer.value.status?.userInfo?.username ?? 'somebody';
    report.ok('api', `The ${from} is '${name}'`);
  }
  const hosts = routeOfKind(cluster, 'api')?.hosts ?? [];
  if (
    server !== undefined &&
    hosts.length > 0 &&
    !isNameInside(server) &&
    patternFor(server, hosts) === undefined
  ) {
    const text = `The ${from} names the server ${server}, which is no API host of this cluster`;
    const fix = `Change its server to https://${hosts[0]}, or fetch it again: kubeconfigs do not follow a change of host`;
    report.warn('api', 'KubeconfigElsewhere', text, fix);
  }
  return true;
}
