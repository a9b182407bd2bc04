// What an agent manages in its tenant besides connections: its address on the node, and its entry in the endpoints of
// Service `kubernetes`. Its API client uses the agent's own listener and uplink, never the Service, which does not work
// before the endpoints are written.

import type { Logger } from 'pino';
import type { Finding } from '../cluster/finding.ts';
import { openKubeClient } from '../kube/kube-client.ts';
import { openKubeAccess } from '../kube/open-kube-access.ts';
import type { AgentLog } from './agent-log.ts';
import type { AgentOptions, Place } from './agent-options.ts';
import { keepEndpoints } from './endpoints.ts';
import { addLocalAddress } from './local-address.ts';

/** Short, since the lease must be renewed in time, and nothing here waits for webhooks. */
const CALL_TIMEOUT_MS = 5000;

export class TenantSide implements AsyncDisposable {
  readonly #options: AgentOptions;
  readonly #log: AgentLog;
  readonly #logger: Logger;
  #address: AsyncDisposable | undefined;
  #endpoints: AsyncDisposable | undefined;
  #findings: readonly Finding[] = [];

  constructor(options: AgentOptions, logger: Logger) {
    this.#options = options;
    this.#logger = logger;
    this.#log = (level, sentence) => logger[level](sentence);
  }

  get findings(): readonly Finding[] {
    return this.#findings;
  }

  /** Call this before the listener opens. Throws a LocalAddressError. */
  async addAddress(): Promise<void> {
    const { localAddress, localDevice } = this.#options;
    if (localAddress === undefined) return;
    this.#address = await addLocalAddress({ address: localAddress, device: localDevice, log: this.#log });
  }

  /** `at` is the agent's own listener. Throws an AdvertiseError or a KubeAccessError. */
  async joinEndpoints(at: Place, identity: string): Promise<void> {
    const { endpoints, kubeconfig, advertise, leaseNamespace, clusterId } = this.#options;
    if (!endpoints) return;
    const access = await openKubeAccess(kubeconfig === undefined ? {} : { kubeconfig });
    const api = openKubeClient({ access, at, timeoutMs: CALL_TIMEOUT_MS });
    const kept = keepEndpoints({
      api,
      cluster: clusterId,
      identity,
      advertise,
      port: at.port,
      leaseNamespace,
      log: this.#log,
      onFindings: findings => this.#found(findings),
    });
    this.#endpoints = {
      async [Symbol.asyncDispose]() {
        await kept[Symbol.asyncDispose]();
        api[Symbol.dispose]();
      },
    };
  }

  /** Sends new clients to other agents. Call this while the uplink still works. */
  async leaveEndpoints(): Promise<void> {
    await this.#endpoints?.[Symbol.asyncDispose]();
    this.#endpoints = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.leaveEndpoints();
    await this.#address?.[Symbol.asyncDispose]();
  }

  #found(findings: readonly Finding[]): void {
    const before = new Set(this.#findings.map(({ text }) => text));
    this.#findings = findings;
    for (const finding of findings) if (!before.has(finding.text)) this.#logger.warn(finding, 'finding');
  }
}
