// What the admin API and the commands read: the state of the controller, without the power to change it.

import type { AdminView } from '../admin/admin-api.ts';
import type { EventStreams } from '../admin/event-streams.ts';
import type { CertificateEnd, Histogram } from '../admin/metrics.ts';
import type { FindingAnswer, Status } from '../admin/status.ts';
import type { Finding } from '../cluster/finding.ts';
import type { Config } from '../config/config.ts';
import type { GatewayPort } from '../gateway/control/gateway-port.ts';
import { Explainer, type Explanation } from '../gateway/table/explain.ts';
import { type Question } from '../gateway/table/question.ts';
import type { Plan } from '../plan/plan.ts';
import type { SourceState } from '../sources/source-set.ts';
import type { CertificateWatch } from './certificate-watch.ts';
import type { GatewayProcess } from './gateway-process.ts';
import type { GatewayTable } from './gateway-table.ts';
import { listenersOf } from './listeners.ts';

/** What is served at the moment. */
export interface Served {
  readonly config: Config;
  readonly plan: Plan;
  /** Why the last edit of the file was refused. */
  readonly fileError: string | null;
  readonly restartNeeded: readonly string[];
  readonly sources: readonly SourceState[];
  readonly isLeader: boolean;
  readonly isDraining: boolean;
  /** Why it is not ready although the gateway serves. */
  readonly notReady: string | undefined;
}

export interface StatusViewOptions {
  readonly version: string;
  readonly node: string;
  readonly events: EventStreams;
  readonly gatewayProcess: GatewayProcess;
  readonly table: GatewayTable;
  readonly certificates: Pick<CertificateWatch, 'ends'>;
  readonly dnsQueries: () => ReadonlyMap<string, number> | undefined;
  readonly served: () => Served;
  readonly drain: () => Promise<void>;
  /** Connections that are still with processes that this one has replaced. */
  readonly draining: () => number;
}

export class StatusView implements AdminView {
  readonly events: EventStreams;
  readonly drain: () => Promise<void>;
  readonly #options: StatusViewOptions;
  readonly #startedAt = performance.now();
  /** Built on first use: that takes a while for a large table. */
  #explainer: { readonly plan: Plan; readonly explainer: Explainer } | undefined;

  constructor(options: StatusViewOptions) {
    this.#options = options;
    this.events = options.events;
    this.drain = options.drain;
  }

  get gateway(): GatewayPort {
    return this.#options.table.gateway;
  }

  get plan(): Plan {
    return this.#options.served().plan;
  }

  get started(): boolean {
    return this.#options.table.isStarted;
  }

  get node(): string {
    return this.#options.node;
  }

  get applySeconds(): Histogram {
    return this.#options.table.applySeconds;
  }

  get uptimeMs(): number {
    return performance.now() - this.#startedAt;
  }

  status(): Status {
    const { version, gatewayProcess } = this.#options;
    const { plan, fileError, restartNeeded, sources, isLeader } = this.#options.served();
    const gateway = this.started ? this.gateway : undefined;
    return {
      version,
      engine: gatewayProcess.engine,
      workers: gatewayProcess.workers,
      uptimeSeconds: Math.round(this.uptimeMs) / 1000,
      generation: gateway?.generation ?? 0,
      listeners: gateway?.listeners ?? [],
      config: { ok: fileError === null, error: fileError, restartNeeded },
      sources: [{ name: 'file', up: fileError === null, synced: true, error: fileError }, ...sources],
      leader: isLeader,
      findings: unservedFindings(plan),
      counts: { ...plan.counts, connections: gateway?.connections ?? 0, draining: this.#options.draining() },
      health: gateway?.health ?? { backends: 0, down: 0, stretch: 1 },
    };
  }

  findings(): ReadonlyMap<string, number> {
    const bySeverity = new Map<Finding['severity'], number>([
      ['info', 0],
      ['warning', 0],
      ['error', 0],
    ]);
    for (const { severity } of this.plan.findings)
      bySeverity.set(severity, (bySeverity.get(severity) ?? 0) + 1);
    return bySeverity;
  }

  connectionLimits(): ReadonlyMap<string, number> {
    const { gatewayProcess } = this.#options;
    const { config, plan } = this.#options.served();
    const limits = new Map([['', gatewayProcess.limits(config.limits.connections).connections]]);
    for (const { name, limits: own } of plan.clusters)
      if (own.connections !== undefined) limits.set(name, own.connections);
    return limits;
  }

  dnsQueries(): ReadonlyMap<string, number> | undefined {
    return this.#options.dnsQueries();
  }

  *certificates(): Generator<CertificateEnd> {
    const { certificates, table } = this.#options;
    for (const end of certificates.ends()) yield { certificate: 'api', ...end };
    const notAfter = table.tunnelEnd;
    if (notAfter !== undefined) yield { certificate: 'tunnel', cluster: '', notAfter };
  }

  explain(question: Question): Explanation {
    const { plan, config } = this.#options.served();
    if (this.#explainer?.plan !== plan) {
      const explainer = new Explainer(plan.clusters, listenersOf(config), {
        tunnelHosts: config.tunnel?.hosts ?? [],
        healthOf: (...backend) => this.gateway.backendHealth(...backend),
      });
      this.#explainer = { plan, explainer };
    }
    return this.#explainer.explainer.explain(question);
  }

  notReady(): string | undefined {
    const { isDraining, notReady } = this.#options.served();
    if (isDraining) return 'draining';
    if (!this.started) return 'the listeners are not open yet';
    return this.gateway.trouble ?? notReady;
  }
}

/** At most this many are listed: one object may have a thousand bad hosts. */
const MAX_FINDINGS = 100;

/** Findings that no cluster of /api/v1/clusters shows. */
function unservedFindings({ clusters, findings }: Plan): readonly FindingAnswer[] {
  if (findings.length === 0) return [];
  const served = new Set(clusters.map(({ name }) => name));
  return findings
    .filter(({ cluster }) => cluster === undefined || !served.has(cluster))
    .slice(0, MAX_FINDINGS)
    .map(({ severity, code, text, fix, origin }) => {
      const { source = null, object } = origin ?? {};
      const named = object === undefined ? null : `${object.kind} ${object.namespace}/${object.name}`;
      return { severity, code, text, fix, source, object: named };
    });
}
