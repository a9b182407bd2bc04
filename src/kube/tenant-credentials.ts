// Who we are towards the API server of one tenant: the admin kubeconfig in a Secret of the management cluster. The
// Secret is read again every few minutes and whenever the credentials seem to be out of date, so that a rotation is
// noticed. Read lazily: a tenant that nobody talks to costs nothing.

import type { ControlPlane } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { Clock } from './clock.ts';
import { type KubeAccess, KubeAccessError, type KubeCredentials } from './kube-access.ts';
import { type KubeApi, wordsOf } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';
import { type Resource, resource } from './resources.ts';

/** Operators renew certificates days before they expire. */
const REREAD_MS = 300_000;
/** However many calls fail. */
const LEAST_MS = 10_000;

export interface Secret extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}
export const secrets: Resource<Secret> = resource('v1', 'secrets', 'Secret');

export type KubeconfigSecret = NonNullable<ControlPlane['kubeconfig']>;
/** A finding without the cluster it is about. */
export type Problem = Pick<Finding, 'code' | 'text' | 'fix'>;

interface Kept {
  readonly version: string | undefined;
  readonly access: KubeAccess;
}

export class TenantCredentials implements KubeAccess {
  readonly #api: KubeApi;
  readonly #secret: KubeconfigSecret;
  readonly #clock: Clock;
  #kept: Kept | undefined;
  /** Why there are no credentials, for calls until the next read. */
  #failure: KubeAccessError | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #isDoubted = true;
  #reading: Promise<void> | undefined;
  /** Of the Secret as it was read last. */
  problem: Problem | undefined;

  constructor(api: KubeApi, secret: KubeconfigSecret, clock: Clock) {
    this.#api = api;
    this.#secret = secret;
    this.#clock = clock;
  }

  /** `Secret tenants/a-admin-kubeconfig`. */
  get name(): string {
    return `Secret ${this.#secret.namespace}/${this.#secret.secret}`;
  }

  async credentials(): Promise<KubeCredentials> {
    const age = this.#clock.now() - this.#readAt;
    if (age >= (this.#isDoubted ? LEAST_MS : REREAD_MS)) {
      this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    }
    await this.#reading;
    if (this.#kept !== undefined) return this.#kept.access.credentials();
    throw this.#failure ?? new KubeAccessError(`${this.name} has not been read yet`);
  }

  /** The API server refused them, or is not where they say: there may be new ones. */
  doubt(): void {
    this.#isDoubted = true;
  }

  async #read(): Promise<void> {
    const { namespace, secret, keys } = this.#secret;
    const found = await this.#api.get(secrets, namespace, secret);
    this.#readAt = this.#clock.now();
    if (!found.ok) {
      const { fault } = found;
      this.#isDoubted = true;
      if (fault.status === 404) {
        this.#kept = undefined;
        return this.#fail('SecretMissing', `${this.name} does not exist`, MISSING);
      }
      if (fault.status === 403) {
        const text = `${this.name} may not be read: ${wordsOf(fault)}`;
        return this.#fail('SecretMissing', text, FORBIDDEN);
      }
      // The management cluster's trouble: the last credentials may still be good.
      this.#failure = new KubeAccessError(`${this.name} cannot be read: ${wordsOf(fault)}`);
      return;
    }
    this.#isDoubted = false;
    const { data = {}, metadata } = found.value;
    if (this.#kept !== undefined && this.#kept.version === metadata.resourceVersion) {
      this.problem = undefined;
      return;
    }
    const key = keys.find(each => data[each]);
    if (key === undefined) {
      const has = Object.keys(data).slice(0, 10).join(', ') || 'none';
      const text = `${this.name} has no key ${keys.join(' or ')}; its keys: ${has}`;
      return this.#fail('SecretMissing', text, MISSING);
    }
    // Loaded only where there are tenants: its YAML parser takes 5 MiB.
    const { kubeconfigFromText } = await import('./kubeconfig-access.ts');
    try {
      const text = Buffer.from(data[key], 'base64').toString();
      const access = kubeconfigFromText(text, { name: `of ${this.name}, key ${key},` });
      this.#kept = { version: metadata.resourceVersion, access };
      this.problem = undefined;
    } catch (error) {
      if (!(error instanceof KubeAccessError)) throw error;
      this.#fail('KubeconfigInvalid', error.message, INVALID);
    }
  }

  /** Credentials that worked before are kept: a Secret may be half written. */
  #fail(code: Problem['code'], text: string, fix: string): void {
    this.problem = { code, text, fix };
    this.#failure = new KubeAccessError(text);
  }
}

const MISSING =
  'Its operator writes the Secret once the control plane is ready: look at the status of the object';
const FORBIDDEN = 'Apply the output of causeway render rbac';
const INVALID = 'Delete the Secret, so that its operator writes it again';
