// sources → plan → outputs. A change of the file or of any source leads to one pass: observe everything, plan, serve,
// write. Passes never overlap. The first change of a burst is served at once; the pass that writes waits for the rest. If
// a new file cannot be served, the whole edit is refused and the last good configuration stays.

import type { Logger } from 'pino';
import type { Config, LogSettings } from '../config/config.ts';
import type { ConfigReader } from '../config/config-reader.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { StartError } from '../gateway/control/start-error.ts';
import { entersTenants, wantsNodes } from '../outputs/servers-of.ts';
import type { Plan } from '../plan/plan.ts';
import type { Observed, SourceSet } from '../sources/source-set.ts';
import type { CertificateWatch } from './certificate-watch.ts';
import { ConfigError } from './config-error.ts';
import type { ConfigHints } from './config-hints.ts';
import type { DnsOutputs } from './dns-outputs.ts';
import { FindingLog } from './finding-log.ts';
import { FILE_REFUSED } from './gateway-process.ts';
import type { GatewayTable } from './gateway-table.ts';
import { HoldOff } from './hold-off.ts';
import type { KubeOutputs } from './kube-outputs.ts';
import { type Overrides, reloadConfig } from './load-config.ts';
import { makePlan } from './make-plan.ts';
import { takesAway } from './takes-away.ts';

/** Keys whose changes need a restart. */
const restartKeys = ['engine', 'workers', 'admin', 'stateDir', 'runDir'] as const;
/** A pass that failed is repeated after this long. */
const RETRY_MS = 5000;

export interface ControlLoopOptions {
  readonly file: string;
  /** As the process was started. */
  readonly config: Config;
  readonly overrides: Overrides;
  /** Reads the file again. The loop disposes of it. */
  readonly reader: ConfigReader;
  readonly log: Logger;
  readonly useLog?: ((settings: LogSettings) => void) | undefined;
  readonly sources: SourceSet;
  readonly table: GatewayTable;
  readonly kube: KubeOutputs;
  readonly dns: DnsOutputs;
  readonly certificates: CertificateWatch;
  readonly hints: ConfigHints;
  /** The admin side's address, as `host:port`. */
  readonly adminAddress: () => string | undefined;
  /** Something about what is served has changed. */
  readonly changed: () => void;
  /** Clusters of sources have changed. */
  readonly save: () => void;
}

export class ControlLoop implements AsyncDisposable {
  readonly #options: ControlLoopOptions;
  readonly #findings: FindingLog;
  readonly #holdOff: HoldOff;
  #config: Config;
  #plan: Plan;
  #fileError: string | null = null;
  #restartNeeded: readonly string[] = [];
  /** Passes, one at a time. */
  #passes: Promise<void> = Promise.resolve();
  #nextReload: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #isStopped = false;
  #wasLeader = false;
  #kubeErrors: readonly string[] = [];

  /** Plans what is known without asking anybody: the file, and the clusters of the last run. */
  constructor(options: ControlLoopOptions) {
    const { config, sources, log } = options;
    this.#options = options;
    this.#config = config;
    this.#plan = makePlan(config, sources.observe(config.sources), []);
    this.#findings = new FindingLog(log);
    this.#holdOff = new HoldOff(() => this.#inTurn(() => this.#sourcesChanged()), {
      first: () => void this.#inTurn(() => this.#serveFirst()),
    });
  }

  get config(): Config {
    return this.#config;
  }

  get plan(): Plan {
    return this.#plan;
  }

  /** Why the last edit of the file was refused. */
  get fileError(): string | null {
    return this.#fileError;
  }

  get restartNeeded(): readonly string[] {
    return this.#restartNeeded;
  }

  /** The gateway serves: opens the sources, and writes to Kubernetes. */
  async begin(): Promise<void> {
    this.#findings.write(this.#plan.findings, 'all');
    await this.#options.hints.write(this.#config);
    this.#use(this.#config);
    this.#write(this.#options.sources.observe());
  }

  /** A source, or what outputs and looks at certificates have found, may have changed. */
  changed(): void {
    this.#holdOff.changed();
  }

  /** Keys of clusters, which tenants' agents sign with, have changed. */
  keysChanged(): void {
    void this.#inTurn(async () => {
      this.#options.kube.use(this.#config);
      this.#write(this.#options.sources.observe());
    });
  }

  /** Rereads the file. Serialised: a pending reload also covers this request. */
  reload(): Promise<void> {
    this.#nextReload ??= this.#inTurn(() => {
      this.#nextReload = undefined;
      return this.#reload();
    });
    return this.#nextReload;
  }

  /** No further pass begins. */
  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#retry);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.#holdOff[Symbol.asyncDispose]();
    await this.#options.reader[Symbol.asyncDispose]();
  }

  #inTurn(pass: () => Promise<void>): Promise<void> {
    this.#passes = this.#passes.then(() => (this.#isStopped ? undefined : pass()));
    return this.#passes;
  }

  /** Whatever the error is, the gateway must survive it until the next edit. */
  async #reload(): Promise<void> {
    const { file, log, overrides, reader, useLog, sources, table, dns, hints, changed } = this.#options;
    try {
      const loaded = await reloadConfig(file, overrides, reader, this.#config);
      const { config } = loaded;
      const next = this.#makePlan(config, sources.observe(config.sources));
      const servers = await dns.open(config, next);
      try {
        await table.applyConfig(loaded, next.clusters);
      } catch (error) {
        servers.abandon();
        throw error;
      }
      servers.commit();
      this.#config = config;
      this.#plan = next;
      this.#fileError = null;
      this.#restartNeeded = restartKeys.filter(
        key => JSON.stringify(config[key]) !== JSON.stringify(this.#options.config[key]),
      );
      dns.update(config, next);
      this.#use(config);
      this.#write(sources.observe());
      useLog?.(config.log);
      const { generation } = table.gateway;
      log.info({ generation, ...next.counts, restartNeeded: this.#restartNeeded }, 'applied');
      changed();
      this.#findings.write(next.findings, 'all');
      await hints.write(config);
    } catch (error) {
      const expected = [ConfigError, ListenError, StartError].some(kind => error instanceof kind);
      this.#fileError = error instanceof Error ? error.message : String(error);
      log.error({ error: this.#fileError, ...(!expected && { err: error }) }, FILE_REFUSED);
      changed();
    }
  }

  /** Serves what the first change of a burst brings, and writes nothing: the rest may follow in a moment. */
  async #serveFirst(): Promise<void> {
    try {
      const next = this.#makePlan(this.#config, this.#options.sources.observe());
      if (!takesAway(this.#plan.clusters, next.clusters)) await this.#serve(next);
    } catch {
      // The pass after the hold-off meets the same error, and reports it.
    }
  }

  async #serve(next: Plan): Promise<void> {
    const { log, table, save, changed } = this.#options;
    if (!areSame(next.clusters, this.#plan.clusters)) {
      await table.applyClusters(this.#config, next.clusters);
      log.info({ generation: table.gateway.generation, ...next.counts }, 'applied');
      save();
    }
    this.#plan = next;
    this.#options.dns.update(this.#config, next);
    changed();
  }

  async #sourcesChanged(): Promise<void> {
    const { log, sources } = this.#options;
    try {
      const observed = sources.observe();
      await this.#serve(this.#makePlan(this.#config, observed));
      this.#write(observed);
      this.#findings.write(this.#plan.findings, 'new');
      this.#logKube();
    } catch (error) {
      log.error({ err: error }, 'change of a source not applied; trying again');
      clearTimeout(this.#retry);
      this.#retry = setTimeout(() => this.#holdOff.changed(), RETRY_MS).unref();
    }
  }

  #makePlan(config: Config, observed: Observed): Plan {
    const { table, kube, certificates, adminAddress } = this.#options;
    const admin = adminAddress();
    const listening = table.gateway.listeners.map(({ address }) => address);
    const found = [...kube.findings, ...certificates.findings];
    return makePlan(config, observed, [...listening, ...(admin === undefined ? [] : [admin])], found);
  }

  #use(config: Config): void {
    const { sources, kube } = this.#options;
    const { outputs } = config;
    sources.use(config.sources, `${entersTenants(outputs)} ${wantsNodes(outputs)}`);
    kube.use(config);
  }

  #write({ sources: observed }: Observed): void {
    const { sources, kube, certificates } = this.#options;
    certificates.update(this.#plan.clusters);
    kube.update(this.#plan, observed, sources.fixes(this.#plan.clusters));
  }

  /** Each change once. */
  #logKube(): void {
    const { log, kube } = this.#options;
    const { isLeader, errors } = kube;
    if (isLeader !== this.#wasLeader) log.info({ leader: isLeader }, 'leader');
    for (const error of errors)
      if (!this.#kubeErrors.includes(error)) log.warn({ error }, 'cannot write to Kubernetes; trying again');
    this.#wasLeader = isLeader;
    this.#kubeErrors = errors;
  }
}

function areSame(some: readonly unknown[], others: readonly unknown[]): boolean {
  return some.length === others.length && some.every((one, index) => one === others[index]);
}
