// The KubeApi of one tenant, fit to be one of a thousand: its calls go one after the other over one connection, which
// closes when idle; no watch holds a connection unless that is asked for; and a tenant that does not answer is asked ever
// more rarely, so that it takes no time from the others.

import type { CallSlots } from './call-slots.ts';
import type { Clock } from './clock.ts';
import {
  type Answer,
  failed,
  type KubeApi,
  type KubeFault,
  type Listed,
  type ListOptions,
  type WatchEnd,
  type WatchOptions,
  wordsOf,
} from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';
import type { Resource } from './resources.ts';
import type { Problem, TenantCredentials } from './tenant-credentials.ts';

/** Between two attempts to reach a tenant that does not answer: the first pause, and the longest. */
const FIRST_PAUSE_MS = 5000;
const MAX_PAUSE_MS = 300_000;
/** While its Secret is missing: that of a new control plane comes soon, and a look at it costs the tenant nothing. */
const MAX_SECRET_PAUSE_MS = 30_000;
/** Faults that concern the tenant and not the call. */
const OUT: ReadonlySet<string> = new Set(['Unreachable', 'Untrusted', 'Timeout', 'Credentials']);
/** Instead of a watch, lists are read so often: what others change is noticed then. */
const POLL_MS = 600_000;
/** After a write of ours, so that it is soon confirmed. */
const CONFIRM_MS = 2000;

const EXPIRED: WatchEnd = {
  why: 'expired',
  fault: { status: 410, reason: 'Expired', message: 'Lists are polled in tenants' },
};

export interface TenantClientOptions {
  readonly client: KubeApi;
  readonly credentials: TenantCredentials;
  /** Shared by all tenants. */
  readonly slots: CallSlots;
  readonly clock: Clock;
  /** From 0 to 1. */
  readonly random: () => number;
  /** Watches are real ones, each over a connection of its own. Absent: lists are polled. */
  readonly watches?: boolean;
  /** More objects than these of one resource are a fault: whoever administers the tenant may create any number. */
  readonly maxObjects?: number;
  /** `problem` has changed. */
  readonly changed: () => void;
}

export class TenantClient implements KubeApi {
  readonly #options: TenantClientOptions;
  /** The last call in the queue. */
  #last: Promise<unknown> = Promise.resolve();
  #failures = 0;
  #pausedUntil = 0;
  #fault: KubeFault | undefined;
  #reported: string | undefined;
  /** Aborted by a write: lists of that resource are read again soon, also if no watch is open at that time. By plural. */
  readonly #written = new Map<string, AbortController>();
  /** How many there are as far as is known. By plural. */
  readonly #objects = new Map<string, number>();

  constructor(options: TenantClientOptions) {
    this.#options = options;
  }

  /** Why the tenant cannot be managed now. */
  get problem(): Problem | undefined {
    const { credentials } = this.#options;
    if (credentials.problem !== undefined) return credentials.problem;
    const fault = this.#fault;
    if (fault === undefined) return undefined;
    const text = `The API server of the tenant ${fault.status === 401 ? `refuses the credentials of ${credentials.name}` : 'cannot be reached'}: ${wordsOf(fault)}`;
    return fault.status === 401
      ? { code: 'KubeconfigInvalid', text, fix: 'Renew the admin kubeconfig of the control plane' }
      : {
          code: 'TenantUnreachable',
          text,
          fix: 'Look at the control plane, and at the network to it; it is tried again',
        };
  }

  get: KubeApi['get'] = (...args) => this.#call(client => client.get(...args));
  list: KubeApi['list'] = (...args) => this.#call(client => this.#listSome(client, ...args));
  create: KubeApi['create'] = (...args) => this.#write(args[0].plural, client => client.create(...args));
  replace: KubeApi['replace'] = (...args) => this.#write(args[0].plural, client => client.replace(...args));
  remove: KubeApi['remove'] = (...args) => this.#write(args[0].plural, client => client.remove(...args));
  apply: KubeApi['apply'] = (...args) => this.#write(args[0].plural, client => client.apply(...args));
  patch: KubeApi['patch'] = (...args) => this.#write(args[0].plural, client => client.patch(...args));
  merge: KubeApi['merge'] = (...args) => this.#write(args[0].plural, client => client.merge(...args));
  discover: KubeApi['discover'] = group => this.#call(client => client.discover(group));

  watch: KubeApi['watch'] = (resource, options, onEvent) =>
    this.#options.watches === true
      ? this.#follow(resource, options, onEvent)
      : this.#poll(resource.plural, options);

  /** A page is read at a time, so that a list that is too long is never in memory. */
  async #listSome<T extends KubeObject, K>(
    client: KubeApi,
    resource: Resource<T>,
    options: ListOptions<T, K>,
  ): Promise<Answer<Listed<K>>> {
    const { maxObjects = Number.POSITIVE_INFINITY } = this.#options;
    const { keep = (object: T) => object as unknown as K } = options;
    let count = 0;
    const counted = (object: T) => {
      if (++count > maxObjects) throw new TooMany();
      return keep(object);
    };
    try {
      const listed = await client.list(resource, { ...options, keep: counted });
      if (listed.ok) this.#objects.set(resource.plural, listed.value.items.length);
      return listed;
    } catch (error) {
      if (!(error instanceof TooMany)) throw error;
      return { ok: false, fault: tooMany(resource.plural, maxObjects) };
    }
  }

  /** A watch that was cut says nothing about the tenant: the next one will tell. */
  #follow: KubeApi['watch'] = async (resource, options, onEvent) => {
    const fault = this.#pausedFor;
    if (fault !== undefined) return { why: 'failed', fault };
    const { maxObjects = Number.POSITIVE_INFINITY } = this.#options;
    const { plural } = resource;
    const full = new AbortController();
    const signal = AbortSignal.any([options.signal, full.signal]);
    let isOpen = false;
    const onOpen = () => {
      isOpen = true;
      this.#noticed(undefined);
      options.onOpen?.();
    };
    const end = await this.#options.client.watch(resource, { ...options, onOpen, signal }, event => {
      const step = event.type === 'ADDED' ? 1 : event.type === 'DELETED' ? -1 : 0;
      const count = (this.#objects.get(plural) ?? 0) + step;
      this.#objects.set(plural, count);
      if (count > maxObjects) full.abort();
      else onEvent(event);
    });
    if (full.signal.aborted) return { why: 'failed', fault: tooMany(plural, maxObjects) };
    if (end.why === 'failed' && !isOpen) this.#noticed(end.fault);
    return end;
  };

  /** Has no events: it expires after a while, so that its user lists again. */
  async #poll(plural: string, { signal, onOpen }: WatchOptions): Promise<WatchEnd> {
    const { clock, random } = this.#options;
    const written = this.#writtenTo(plural);
    onOpen?.();
    await clock.wait(POLL_MS * (0.8 + random() / 5), AbortSignal.any([signal, written.signal]));
    if (written.signal.aborted) await clock.wait(CONFIRM_MS, signal);
    // The list that follows shows what was written so far.
    if (this.#written.get(plural) === written) this.#written.delete(plural);
    return signal.aborted ? { why: 'aborted' } : EXPIRED;
  }

  async #write<T>(plural: string, act: (client: KubeApi) => Promise<Answer<T>>): Promise<Answer<T>> {
    const answer = await this.#call(act);
    this.#writtenTo(plural).abort();
    return answer;
  }

  #writtenTo(plural: string): AbortController {
    const known = this.#written.get(plural) ?? new AbortController();
    this.#written.set(plural, known);
    return known;
  }

  #call<T>(act: (client: KubeApi) => Promise<Answer<T>>): Promise<Answer<T>> {
    const answer = this.#last.then(() => this.#inTurn(act));
    this.#last = answer.catch(() => {});
    return answer;
  }

  async #inTurn<T>(act: (client: KubeApi) => Promise<Answer<T>>): Promise<Answer<T>> {
    const { client, slots } = this.#options;
    const fault = this.#pausedFor;
    if (fault !== undefined) return { ok: false, fault };
    if (!(await slots.acquire())) return failed(0, 'Timeout', 'Too many calls to tenants are under way');
    try {
      const answer = await act(client);
      this.#noticed(answer.ok ? undefined : answer.fault);
      return answer;
    } finally {
      slots.release();
    }
  }

  /** Why the tenant is not asked now. */
  get #pausedFor(): KubeFault | undefined {
    return this.#options.clock.now() < this.#pausedUntil ? this.#fault : undefined;
  }

  #noticed(fault: KubeFault | undefined): void {
    const { credentials, clock, random, changed } = this.#options;
    const isOut =
      fault !== undefined && (fault.status === 401 || (fault.status === 0 && OUT.has(fault.reason)));
    this.#fault = isOut ? fault : undefined;
    this.#failures = isOut ? this.#failures + 1 : 0;
    if (isOut) {
      // They may have been renewed, or the API server may have moved.
      credentials.doubt();
      const max = fault.reason === 'Credentials' ? MAX_SECRET_PAUSE_MS : MAX_PAUSE_MS;
      const pause = Math.min(FIRST_PAUSE_MS * 2 ** (this.#failures - 1), max);
      this.#pausedUntil = clock.now() + pause * (0.5 + random() / 2);
    }
    const text = this.problem?.text;
    if (text === this.#reported) return;
    this.#reported = text;
    changed();
  }
}

class TooMany extends Error {}

/** Not a fault that a watch could resume from: the next list tells whether there are still too many. */
function tooMany(plural: string, max: number): KubeFault {
  return { status: 413, reason: 'TooLarge', message: `The tenant has more than ${max} ${plural}` };
}
