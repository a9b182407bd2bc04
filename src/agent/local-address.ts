// `--local-address`: the address on which the agent listens inside its node, added to `lo` or to a device of its own.
// What is there already is used as it is, without privileges, and left there. During a rolling update two agents
// share a node: the second finds the first one's address, and when the first leaves and takes it along, the second
// adds it again. A listener does not notice: its socket stays bound while the address is away.

import { formatIp, isIpv4, parseIp } from '../wire/ip-address.ts';
import type { AgentLog } from './agent-log.ts';
import { type IpResult, type LocalNetwork, localNetwork } from './local-network.ts';

/** Well under the seconds for which clients try to connect; a look costs one call of the kernel. */
const LOOK_MS = 2000;

export interface LocalAddressOptions {
  readonly address: string;
  /** Default `lo`. Another one that does not exist is made (type dummy), and removed at the end. */
  readonly device?: string;
  readonly log: AgentLog;
  readonly network?: LocalNetwork;
}

/** The address is not there and cannot be added. The message says what is missing and what to do. */
export class LocalAddressError extends Error {
  readonly code = 'ERR_LOCAL_ADDRESS';

  constructor(message: string) {
    super(message);
    this.name = 'LocalAddressError';
  }
}

/** Settles when the address is there, and keeps it there. Disposing removes what was added, and only that. */
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
  #deviceMade = false;
  #failing = false;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor(address: string, device: string, network: LocalNetwork, log: AgentLog) {
    this.#address = address;
    this.#prefixed = `${address}/${address.includes(':') ? 128 : 32}`;
    this.#device = device;
    this.#network = network;
    this.#log = log;
  }

  async start(): Promise<void> {
    if (this.#isThere())
      this.#log('info', `${this.#address} is there already: it is used, and left at the end`);
    else await this.#add();
    this.#timer = setInterval(() => {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = undefined;
      });
    }, LOOK_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
    // Its addresses go with a device.
    if (this.#deviceMade) await this.#remove('link', 'delete', 'dev', this.#device);
    else if (this.#added) await this.#remove('address', 'delete', this.#prefixed, 'dev', this.#device);
  }

  /** All of 127.0.0.0/8 is local, whatever `lo` lists. */
  #isThere(): boolean {
    return this.#address.startsWith('127.') || this.#network.addresses().has(this.#address);
  }

  async #look(): Promise<void> {
    try {
      if (!this.#isThere()) await this.#add();
      this.#failing = false;
    } catch (error) {
      // Looking takes a descriptor, too, and there may be none left for the moment.
      const what = error instanceof LocalAddressError ? 'is gone' : 'cannot be looked for';
      if (!this.#failing) this.#log('error', `${this.#address} ${what}. ${(error as Error).message}`);
      this.#failing = true;
    }
  }

  async #add(): Promise<void> {
    await this.#makeDevice();
    const result = await this.#network.ip(
      'address',
      'add',
      this.#prefixed,
      'dev',
      this.#device,
      ...this.#how(),
    );
    // A device that is down has its addresses and answers on none of them.
    if (result.ok || !this.#isThere()) await this.#network.ip('link', 'set', 'dev', this.#device, 'up');
    if (result.ok) {
      this.#added = true;
      this.#log('info', `Added ${this.#address} to '${this.#device}'`);
      return;
    }
    // Another agent was faster, or the device was down: it is there, and not ours.
    if (this.#isThere()) return;
    await this.#unmakeDevice();
    throw new LocalAddressError(this.#whyNot(result));
  }

  /** With scope host the kernel never takes it for the source of connections that leave the node. */
  #how(): readonly string[] {
    if (this.#device === 'lo') return this.#address.includes(':') ? [] : ['scope', 'host'];
    // RFC 4862 5.4: until nobody has objected an address cannot be listened on, and nobody is there to object.
    return this.#address.includes(':') ? ['nodad'] : [];
  }

  async #makeDevice(): Promise<void> {
    if (this.#device === 'lo' || (await this.#network.ip('link', 'show', 'dev', this.#device)).ok) return;
    const made = await this.#network.ip('link', 'add', 'dev', this.#device, 'type', 'dummy');
    if (made.ok) {
      this.#deviceMade = true;
      return;
    }
    // Made by another agent in between.
    if ((await this.#network.ip('link', 'show', 'dev', this.#device)).ok) return;
    throw new LocalAddressError(
      isRefusal(made) || made.fault === 'ENOENT'
        ? this.#whyNot(made)
        : `Cannot make the device '${this.#device}' (${made.fault}): this kernel may have no type dummy. Use --local-device lo, or make the device beforehand`,
    );
  }

  async #unmakeDevice(): Promise<void> {
    if (!this.#deviceMade) return;
    await this.#network.ip('link', 'delete', 'dev', this.#device);
    this.#deviceMade = false;
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
      return `${start} as there is no program 'ip'. Install the package iproute2, or ${beforehand}`;
    }
    if (isRefusal(result)) {
      return `${start} as that needs the capability NET_ADMIN. Run as root with it (in a pod: securityContext.capabilities.add: [NET_ADMIN]), or ${beforehand}`;
    }
    return `${start}: ip says '${result.fault}'. Look at --local-address and --local-device, or ${beforehand}`;
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
    throw new LocalAddressError(`--local-address must be an address of one host: current value is '${text}'`);
  }
  return address;
}

function isRefusal({ fault }: IpResult): boolean {
  return /not permitted|permission denied/i.test(fault);
}
