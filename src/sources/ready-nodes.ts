// The addresses at which a cluster's nodes serve its apps: those of nodes that are Ready and not cordoned. Pure. Whoever
// administers a cluster writes its Nodes, so any field may be missing or of the wrong type.

import { unreachableAddress } from '../cluster/unreachable-address.ts';
import type { Node } from '../kube/kube-object.ts';
import { formatIp, parseIp } from '../wire/ip-address.ts';
import { listOf, recordOf } from './kept-service.ts';
import type { Problem } from './service-finding.ts';

/** What is kept of a Node. */
export interface KeptNode {
  readonly is: 'ready' | 'not Ready' | 'cordoned' | 'without a usable address';
  /** Of a ready one. RFC 5952's text. */
  readonly addresses: readonly string[];
}

/** Of one cluster: each is checked and counted, and all clusters share that. */
const MAX_ADDRESSES = 1000;
/** Of one node. */
const MAX_PER_NODE = 8;

/** Shared by all nodes in that state: a cluster may have thousands. */
const NOT_READY: KeptNode = { is: 'not Ready', addresses: [] };
const CORDONED: KeptNode = { is: 'cordoned', addresses: [] };
const NO_ADDRESS: KeptNode = { is: 'without a usable address', addresses: [] };

export function keepNode({ spec, status }: Node): KeptNode {
  const { conditions, addresses } = recordOf(status);
  const isReady = listOf(conditions)
    .map(recordOf)
    .some(one => one.type === 'Ready' && one.status === 'True');
  if (!isReady) return NOT_READY;
  if (recordOf(spec).unschedulable === true) return CORDONED;
  const given = listOf(addresses).map(recordOf);
  const external = addressesOf(given, 'ExternalIP');
  const usable = external.length > 0 ? external : addressesOf(given, 'InternalIP');
  return usable.length === 0 ? NO_ADDRESS : { is: 'ready', addresses: usable };
}

function addressesOf(given: readonly Readonly<Record<string, unknown>>[], type: string): readonly string[] {
  const found = given.flatMap(({ type: is, address }) => {
    const ip = is === type && typeof address === 'string' ? parseIp(address) : undefined;
    const text = ip && formatIp(ip, 0);
    return text === undefined || unreachableAddress(text) !== undefined ? [] : [text];
  });
  return [...new Set(found)].slice(0, MAX_PER_NODE);
}

export interface ReadyNodes {
  /** Sorted. Undefined: none was ever seen. */
  readonly addresses: readonly string[] | undefined;
  readonly problem?: Problem;
}

/** `last`: the addresses so far, which stay while no node is ready. */
export function readyNodes(
  nodes: ReadonlyMap<string, KeptNode>,
  last: readonly string[] | undefined,
): ReadyNodes {
  const all = new Set([...nodes.values()].flatMap(({ addresses }) => addresses));
  if (all.size === 0) return { addresses: last, problem: noneReady(nodes, last) };
  const sorted = [...all].toSorted();
  if (sorted.length <= MAX_ADDRESSES) return { addresses: sorted };
  const text = `its ready nodes have ${sorted.length} addresses, of which the first ${MAX_ADDRESSES} are used`;
  const fix = 'None is needed: these serve for all';
  return {
    addresses: sorted.slice(0, MAX_ADDRESSES),
    problem: { severity: 'info', code: 'TooManyEndpoints', text, fix },
  };
}

function noneReady(nodes: ReadonlyMap<string, KeptNode>, last: readonly string[] = []): Problem {
  const counts = [NOT_READY, CORDONED, NO_ADDRESS].flatMap(({ is }) => {
    const count = [...nodes.values()].filter(node => node.is === is).length;
    return count === 0 ? [] : [`${count} ${is}`];
  });
  const found =
    nodes.size === 0 ? 'it has no nodes' : `none of its ${nodes.size} nodes can serve (${counts.join(', ')})`;
  const effect = last.length === 0 ? 'its apps have no address' : 'the last addresses of its apps stay';
  return {
    severity: last.length === 0 ? 'error' : 'warning',
    code: 'NodesNotReady',
    text: `${found}, so ${effect}`,
    fix: 'Look at its nodes: kubectl get nodes -o wide; one must be Ready, not cordoned, and have an ExternalIP or InternalIP',
  };
}
