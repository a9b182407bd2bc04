// `--local-address`: adds the address on which the agent listens inside its node, to `lo` or to a device of its own.
// An existing address is used without privileges and not removed. During a rolling update two agents share a node: the
// second finds the first one's address, and when the first one ends and removes it, the second adds it again. The
// listener is not affected: its socket stays bound while the address is missing.

import { formatIp, isIpv4, parseIp } from '../wire/ip-address.ts';
import type { AgentLog } from './agent-log.ts';
import { type IpResult, type LocalNetwork, localNetwork } from './local-network.ts';

/** Well under the time for which clients try to connect; a check costs one system call. */
const CHECK_MS = 2000;

export interface LocalAddressOptions {
  readonly address: string;
  /** Default `lo`. A missing device is created (type dummy), and removed at the end. */
  readonly device?: string;
  readonly log: AgentLog;
  readonly network?: LocalNetwork;
}

/** The address does not exist and cannot be added. The message says why and what to do. */
export class LocalAddressError extends Error {
  readonly code = 'ERR_LOCAL_ADDRESS';

  constructor(message: string) {
    super(message);
    this.name = 'LocalAddressError';
  }
}

/** Resolves when the address exists, and keeps it. Disposing removes only what was added. */
export async function addLocalAddress(options: LocalAddressOptions): Promise<AsyncDisposable> {
  const { address, device = 'lo', log, network = localNetwork } = options;
  const kept = new LocalAddress(addressFrom(address), device, network, log);
  await kept.start();
  return kept;
}

class LocalAddress implements AsyncDisposable {
  readonly #address: string;
  readonly #prefixed: string;
  readonly #device: string;
  readonly #network: LocalNetwork;
  readonly #log: AgentLog;
  #added = false;
  #deviceCreated = false;
  #failing = false;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;

  constructor(address: string, device: string, network: LocalNetwork, log: AgentLog) {
    this.#address = address;
    this.#prefixed = `${address}/${address.includes(':') ? 128 : 32}`;
    this.#device = device;
    this.#network = network;
    this.#log = log;
  }

  async start(): Promise<void> {
    if (this.#isThere())
      this.#log('info', `${this.#address} already exists: it will be used, and not removed at the end`);
    else await this.#add();
    this.#timer = setInterval(() => {
      this.#checking ??= this.#check().finally(() => {
        this.#checking = undefined;
      });
    }, CHECK_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#checking;
    // Deleting a device also removes its addresses.
    if (this.#deviceCreated) await this.#remove('link', 'delete', 'dev', this.#device);
    else if (this.#added) await this.#remove('address', 'delete', this.#prefixed, 'dev', this.#device);
  }

  /** All of 127.0.0.0/8 is local, even if `lo` does not list it. */
  #isThere(): boolean {
    return this.#address.startsWith('127.') || this.#network.addresses().has(this.#address);
  }

  async #check(): Promise<void> {
    try {
      if (!this.#isThere()) await this.#add();
      this.#failing = false;
    } catch (error) {
      // The check itself needs a descriptor, and there may be none left for the moment.
      const what = error instanceof LocalAddressError ? 'is gone' : 'cannot be checked';
      if (!this.#failing) this.#log('error', `${this.#address} ${what}. ${(error as Error).message}`);
      this.#failing = true;
    }
  }

  async #add(): Promise<void> {
    await this.#createDevice();
    const result = await this.#network.ip(
      'address',
      'add',
      this.#prefixed,
      'dev',
      this.#device,
      ...this.#addressFlags(),
    );
    // A device that is down keeps its addresses but does not answer on them.
    if (result.ok || !this.#isThere()) await this.#network.ip('link', 'set', 'dev', this.#device, 'up');
    if (result.ok) {
      this.#added = true;
      this.#log('info', `Added ${this.#address} to '${this.#device}'`);
      return;
    }
    // Another agent was faster, or the device was down: the address exists and is not ours.
    if (this.#isThere()) return;
    await this.#deleteDevice();
    throw new LocalAddressError(this.#whyNot(result));
  }

  /** With scope host, the kernel never uses the address as the source of connections that leave the node. */
  #addressFlags(): readonly string[] {
    if (this.#device === 'lo') return this.#address.includes(':') ? [] : ['scope', 'host'];
    // RFC 4862 5.4: a tentative address cannot be bound, and on a dummy device nobody could object to it.
    return this.#address.includes(':') ? ['nodad'] : [];
  }

  async #createDevice(): Promise<void> {
    if (this.#device === 'lo' || (await this.#network.ip('link', 'show', 'dev', this.#device)).ok) return;
    const created = await this.#network.ip('link', 'add', 'dev', this.#device, 'type', 'dummy');
    if (created.ok) {
      this.#deviceCreated = true;
      return;
    }
    // Another agent created it in between.
    if ((await this.#network.ip('link', 'show', 'dev', this.#device)).ok) return;
    throw new LocalAddressError(
      isRefusal(created) || created.fault === 'ENOENT'
        ? this.#whyNot(created)
        : `Cannot create the device '${this.#device}' (${created.fault}): this kernel may not support dummy devices. Use --local-device lo, or create the device beforehand`,
    );
  }

  async #deleteDevice(): Promise<void> {
    if (!this.#deviceCreated) return;
    await this.#network.ip('link', 'delete', 'dev', this.#device);
    this.#deviceCreated = false;
  }

  async #remove(...args: readonly string[]): Promise<void> {
    const { ok, fault } = await this.#network.ip(...args);
    if (ok) this.#log('info', `Removed ${this.#address} from '${this.#device}'`);
    else if (this.#isThere())
      this.#log('warn', `Cannot remove ${this.#address} from '${this.#device}': ${fault}`);
  }

  #whyNot(result: IpResult): string {
    const beforehand = `add the address beforehand: ip address add ${this.#prefixed} dev ${this.#device}`;
    const start = `Cannot add ${this.#address} to '${this.#device}'`;
    if (result.fault === 'ENOENT') {
      return `${start}: the program 'ip' is missing. Install the package iproute2, or ${beforehand}`;
    }
    if (isRefusal(result)) {
      return `${start}: this needs the capability NET_ADMIN. Run as root with it (in a pod: securityContext.capabilities.add: [NET_ADMIN]), or ${beforehand}`;
    }
    return `${start}: ip reports '${result.fault}'. Check --local-address and --local-device, or ${beforehand}`;
  }
}

function addressFrom(text: string): string {
  const bytes = parseIp(text);
  if (bytes === undefined) {
    throw new LocalAddressError(`--local-address must be an IP address: current value is '${text}'`);
  }
  const address = formatIp(bytes, 0);
  const isMulticast = isIpv4(bytes, 0) ? bytes[12] >= 224 : bytes[0] === 0xff;
  if (address === '0.0.0.0' || address === '::' || isMulticast) {
    throw new LocalAddressError(`--local-address must be a unicast address: current value is '${text}'`);
  }
  return address;
}

function isRefusal({ fault }: IpResult): boolean {
  return /not permitted|permission denied/i.test(fault);
}
