// Inside a tenant: the Pods of the agent, and the Secret that it signs with.

import type { Config } from '../config/config.ts';
import { type KubeApi, wordsOf } from '../kube/kube-api.ts';
import type { Resource } from '../kube/resources.ts';
import { type Secret, secrets } from '../kube/tenant-credentials.ts';
import { AGENTS_SELECTOR, type Pod, pods } from '../outputs/agent-endpoints.ts';
import { AGENT } from '../outputs/tenant-agent-pod.ts';
import type { Report } from './check.ts';
import type { Tenant } from './open-tenant.ts';

const NAMESPACE = 'kube-system';
/** Steward's own proxy, which does the same work. */
const STEWARD_SELECTOR = 'app=steward-tcp-proxy';
const STEWARD_SECRET = 'steward-tcp-proxy-tls';

interface StatedPod extends Pod {
  readonly spec?: { readonly nodeName?: string };
  readonly status?: Pod['status'] & {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message?: string;
    }[];
    readonly containerStatuses?: readonly {
      readonly state?: { readonly waiting?: { readonly reason?: string; readonly message?: string } };
    }[];
  };
}

export interface AgentsFound {
  /** Undefined where they could not be listed. */
  readonly agents: readonly Pod[] | undefined;
  readonly hasStewards: boolean;
}

export async function checkTenantAgents(
  { api }: Tenant,
  { outputs }: Pick<Config, 'outputs'>,
  report: Report,
): Promise<AgentsFound> {
  const isWanted = outputs.some(({ kind }) => kind === 'tenantAgent');
  const listed = await api.list(pods as Resource<StatedPod>, {
    namespace: NAMESPACE,
    labelSelector: AGENTS_SELECTOR,
  });
  if (!listed.ok) {
    report.skip('tenant', `its Pods cannot be listed: ${wordsOf(listed.fault)}`);
    return { agents: undefined, hasStewards: false };
  }
  const agents = listed.value.items;
  if (agents.length > 0) {
    judgePods('the agent', agents, AGENTS_SELECTOR, report);
    return { agents, hasStewards: false };
  }
  if (isWanted) {
    const fix = `Look at the findings of the cluster (causeway status), and at kubectl --namespace ${NAMESPACE} describe deployment,daemonset ${AGENT}`;
    report.fail('tenant', 'AgentMissing', 'No Pod of the agent exists, although tenantAgent is set', fix);
  }
  return { agents, hasStewards: await checkSteward(api, report) };
}

/** Steward's own proxy does the same work: it must run, and have the certificate that it terminates TLS with. */
async function checkSteward(api: KubeApi, report: Report): Promise<boolean> {
  const selection = { namespace: NAMESPACE, labelSelector: STEWARD_SELECTOR };
  const listed = await api.list(pods as Resource<StatedPod>, selection);
  if (!listed.ok || listed.value.items.length === 0) return false;
  judgePods("Steward's tcp-proxy", listed.value.items, STEWARD_SELECTOR, report);
  const secret = await api.get(secrets, NAMESPACE, STEWARD_SECRET);
  if (!secret.ok && secret.fault.status === 404) {
    const text = `Secret ${NAMESPACE}/${STEWARD_SECRET} does not exist, and Steward's tcp-proxy ends TLS with it`;
    const fix =
      'Steward writes it: look at the status of the TenantControlPlane; or use the output tenantAgent, which needs no key of the API server';
    report.fail('tenant', 'AgentSecretMissing', text, fix);
  }
  return true;
}

function judgePods(what: string, all: readonly StatedPod[], selector: string, report: Report): void {
  const unready = all.filter(pod => pod.metadata.deletionTimestamp === undefined && !isReady(pod));
  const [first] = unready;
  if (first === undefined) {
    return report.ok(
      'tenant',
      `${all.length === 1 ? 'The Pod' : `All ${all.length} Pods`} of ${what} ${all.length === 1 ? 'is' : 'are'} ready`,
    );
  }
  const text = `${unready.length} of ${all.length} Pods of ${what} are not ready: ${first.metadata.name}${whyNot(first)}`;
  const fix = `See kubectl --namespace ${NAMESPACE} logs -l ${selector}, and docs/agent/troubleshoot.md`;
  if (unready.length === all.length) report.fail('tenant', 'AgentNotReady', text, fix);
  else report.warn('tenant', 'AgentNotReady', text, fix);
}

/** Where agents sign their cluster's id, the key is in a Secret; `terminate` has the certificate there. */
export async function checkAgentSecret(
  { api }: Tenant,
  { outputs, identity }: Pick<Config, 'outputs' | 'identity'>,
  expectedKey: string | undefined,
  report: Report,
): Promise<void> {
  const output = outputs.find(({ kind }) => kind === 'tenantAgent');
  if (output?.kind !== 'tenantAgent') return;
  const isTerminating = output.options.uplink === 'terminate';
  if (!isTerminating && identity === undefined) return;
  const wanted = isTerminating ? ['tls.crt', 'tls.key'] : ['key'];
  const found = await api.get(secrets, NAMESPACE, AGENT);
  const fix =
    'Causeway writes it: look at the findings of the cluster (causeway status), and at its lease if there are several replicas';
  if (!found.ok) {
    if (found.fault.status !== 404)
      return report.skip('tenant', `Secret ${NAMESPACE}/${AGENT}: ${wordsOf(found.fault)}`);
    return report.fail(
      'tenant',
      'AgentSecretMissing',
      `Secret ${NAMESPACE}/${AGENT} does not exist, and the agent cannot start without it`,
      fix,
    );
  }
  const { data = {} } = found.value as Secret;
  const missing = wanted.filter(key => !data[key]);
  if (missing.length > 0) {
    return report.fail(
      'tenant',
      'AgentSecretMissing',
      `Secret ${NAMESPACE}/${AGENT} has no ${missing.join(' and no ')}`,
      fix,
    );
  }
  if (
    !isTerminating &&
    expectedKey !== undefined &&
    Buffer.from(data.key, 'base64').toString().trim() !== expectedKey
  ) {
    const text = `Secret ${NAMESPACE}/${AGENT} has a key that does not belong to identity.secretFile: its ids are refused (bad-signature)`;
    return report.fail('tenant', 'AgentSecretMissing', text, fix);
  }
  report.ok('tenant', `Secret ${NAMESPACE}/${AGENT} has ${wanted.join(' and ')}`);
}

function isReady({ status }: StatedPod): boolean {
  return status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
}

function whyNot({ status, spec }: StatedPod): string {
  const waiting = status?.containerStatuses?.find(({ state }) => state?.waiting !== undefined)?.state
    ?.waiting;
  const unscheduled = status?.conditions?.find(
    ({ type, status }) => type === 'PodScheduled' && status === 'False',
  );
  const why = waiting?.reason ?? unscheduled?.message ?? status?.phase ?? 'unknown';
  return ` (${why}${spec?.nodeName === undefined ? '' : `, on ${spec.nodeName}`})`;
}
