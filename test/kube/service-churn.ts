// Annotated Services that are created, changed and deleted at random, and what a gateway should make of them.

import assert from 'node:assert/strict';
import type { Answer, KubeApi } from '../../src/kube/kube-api.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { endpointSlices, type Resource, resource } from '../../src/kube/resources.ts';
import type { SeededRandom } from '../interop/seeded-random.ts';

const services: Resource<KubeObject & { readonly spec?: object }> = resource('v1', 'services', 'Service');

export interface ChurnBackend {
  /** What it answers. */
  readonly name: string;
  readonly address: string;
  readonly port: number;
}

interface Exposed {
  readonly host: string;
  readonly backend: ChurnBackend;
}

export class ServiceChurn {
  readonly #api: KubeApi;
  readonly #random: SeededRandom;
  readonly #backends: readonly ChurnBackend[];
  readonly #namespace: string;
  readonly #names: readonly string[];
  /** By Service. */
  readonly exposed = new Map<string, Exposed>();
  /** Hosts that were claimed at some time. */
  readonly hosts = new Set<string>();
  /** How often each Service was created. */
  readonly created = new Map<string, number>();
  #hostNumber = 0;

  constructor(
    api: KubeApi,
    options: {
      readonly random: SeededRandom;
      readonly backends: readonly ChurnBackend[];
      readonly namespace: string;
      /** Of the Services that change. */
      readonly names: readonly string[];
    },
  ) {
    this.#api = api;
    this.#random = options.random;
    this.#backends = options.backends;
    this.#namespace = options.namespace;
    this.#names = options.names;
  }

  /** One change of one Service. */
  async step(): Promise<void> {
    const name = this.#random.pick(this.#names);
    if (!this.exposed.has(name)) return this.create(name);
    switch (this.#random.between(0, 4)) {
      case 0:
        return this.#delete(name);
      case 1:
      case 2:
        return this.#changeHost(name);
      default:
        return this.#changeBackend(name);
    }
  }

  async create(name: string): Promise<void> {
    const exposed = { host: this.#newHost(name), backend: this.#random.pick(this.#backends) };
    const metadata = { name, namespace: this.#namespace };
    const annotations = { 'causeway.dev/hosts': exposed.host };
    ok(
      await this.#api.create(services, {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { ...metadata, annotations },
        spec: { ports: [{ name: 'https', port: 443, protocol: 'TCP' }] },
      }),
    );
    ok(
      await this.#api.create(endpointSlices, {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
        addressType: 'IPv4',
        ...endpointsOf(exposed.backend),
      }),
    );
    this.created.set(name, (this.created.get(name) ?? 0) + 1);
    this.#expose(name, exposed);
  }

  async #delete(name: string): Promise<void> {
    const metadata = { name, namespace: this.#namespace };
    ok(await this.#api.remove(services, { apiVersion: 'v1', kind: 'Service', metadata }));
    const slice = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata };
    ok(await this.#api.remove(endpointSlices, { ...slice, addressType: 'IPv4', endpoints: [] }));
    this.exposed.delete(name);
  }

  async #changeHost(name: string): Promise<void> {
    const host = this.#newHost(name);
    const annotations = { 'causeway.dev/hosts': host };
    ok(await this.#api.merge(services, this.#namespace, name, { metadata: { annotations } }));
    this.#expose(name, { ...(this.exposed.get(name) as Exposed), host });
  }

  async #changeBackend(name: string): Promise<void> {
    const backend = this.#random.pick(this.#backends);
    ok(await this.#api.merge(endpointSlices, this.#namespace, name, endpointsOf(backend)));
    this.#expose(name, { ...(this.exposed.get(name) as Exposed), backend });
  }

  #newHost(name: string): string {
    return `${name}-${++this.#hostNumber}.apps.test`;
  }

  #expose(name: string, exposed: Exposed): void {
    this.exposed.set(name, exposed);
    this.hosts.add(exposed.host);
  }
}

function endpointsOf({ address, port }: ChurnBackend) {
  return {
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
    ports: [{ name: 'https', port, protocol: 'TCP' }],
  };
}

function ok<T>(answer: Answer<T>): void {
  assert.ok(answer.ok, JSON.stringify(answer));
}
