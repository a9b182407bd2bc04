// The names and addresses of the demo's three clusters. Plain data that the rest of this folder builds on; the names
// follow the lab in examples/linuxera-lab.yaml.

import type { UplinkKind } from '../cluster/cluster.ts';

export interface DemoCluster {
  readonly name: string;
  /** Identifies the cluster when there is no server name. */
  readonly id: string;
  readonly apiHost: string;
  readonly konnectivityHost: string;
  /** Its applications each add one label in front of this. */
  readonly appsDomain: string;
  /** Where its agent listens; stands for `kubernetes.default.svc` inside the cluster. */
  readonly agentAddress: string;
  /** How its agent reaches the gateway. */
  readonly uplink: UplinkKind;
  /** Its agent signs the cluster's id, and the gateway requires that. */
  readonly isSigned: boolean;
  /** The nodes of its API servers; two, so that one may fail. */
  readonly controlPlanes: readonly [string, string];
  /** The second octet of its addresses, 10.x.0.0/16. */
  readonly network: number;
  /** The hue of its page. */
  readonly hue: number;
}

/** RFC 6761 reserves `.test`: no DNS server will ever answer for it. */
const API_DOMAIN = 'causeway.test';
/** Browsers resolve `*.localhost` to this machine without DNS (RFC 6761, section 6.3). */
const APPS_DOMAIN = 'localhost';

/** The gateway's tunnel host, for agents with the uplink `tunnel`. */
export const TUNNEL_HOST = `tunnel.${API_DOMAIN}`;

/** The API host of a fourth cluster, which comes and goes with a file. The API servers of the first one serve it. */
export const GUEST_HOST = `api.guest.${API_DOMAIN}`;

export const demoClusters: readonly DemoCluster[] = [
  // Like HyperShift's nodes, which cannot sign.
  demoCluster('hub', '3f0c1c52-9a55-4d0e-8a39-6a0f6f1c7b01', 'proxy', false, 1, 215),
  demoCluster('managed1', '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11', 'connect', true, 2, 160),
  demoCluster('managed2', 'c8e1f7aa-51d4-4f6c-b0c3-7d9be3a4d212', 'tunnel', true, 3, 285),
];

function demoCluster(
  name: string,
  id: string,
  uplink: UplinkKind,
  isSigned: boolean,
  number: number,
  hue: number,
): DemoCluster {
  return {
    name,
    id,
    apiHost: `api.${name}.${API_DOMAIN}`,
    konnectivityHost: `konnectivity.${name}.${API_DOMAIN}`,
    appsDomain: `apps.${name}.${APPS_DOMAIN}`,
    agentAddress: `127.0.10.${number}`,
    uplink,
    isSigned,
    controlPlanes: [`${name}-cp-0`, `${name}-cp-1`],
    network: number * 10,
    hue,
  };
}

/** The host of the application that every cluster runs. */
export function helloHost({ appsDomain }: DemoCluster): string {
  return `hello.${appsDomain}`;
}
