// external-dns in a test: follows the DNSEndpoints of an API server, and writes to BIND what they say (start-bind.ts).

import { freePort } from './free-port.ts';
import { goBuild } from './go-build.ts';
import { type Program, startProgram } from './program.ts';
import type { Bind } from './start-bind.ts';

export interface ExternalDnsOptions {
  /** A kubeconfig file of somebody who may read DNSEndpoints and write their status. */
  readonly kubeconfig: string;
  /** Its zones are written. */
  readonly bind: Bind;
  /** Further flags. */
  readonly flags?: readonly string[];
}

/** In the place of the `*` in the names of its TXT records. */
export const WILDCARD = 'wildcard';
/** In front of these names. */
export const TXT_PREFIX = 'owner-';

/** Starts external-dns as docs/external-dns.md does, and resolves when it has compared DNS for the first time. */
export async function startExternalDns(options: ExternalDnsOptions): Promise<Program> {
  const { kubeconfig, bind, flags = [] } = options;
  return startProgram({
    command: await goBuild('external-dns'),
    args: [
      `--kubeconfig=${kubeconfig}`,
      '--source=crd',
      '--events',
      '--policy=sync',
      '--managed-record-types=A',
      '--managed-record-types=AAAA',
      '--registry=txt',
      '--txt-owner-id=causeway',
      `--txt-prefix=${TXT_PREFIX}`,
      `--txt-wildcard-replacement=${WILDCARD}`,
      '--provider=rfc2136',
      '--rfc2136-host=127.0.0.1',
      `--rfc2136-port=${bind.port}`,
      ...bind.zones.map(zone => `--rfc2136-zone=${zone}`),
      `--rfc2136-tsig-keyname=${bind.key.name}`,
      `--rfc2136-tsig-secret-alg=${bind.key.algorithm}`,
      `--rfc2136-tsig-secret=${bind.key.secret}`,
      '--rfc2136-tsig-axfr',
      `--metrics-address=127.0.0.1:${await freePort()}`,
      ...flags,
    ],
    ready: { log: /All records are already up to date|Adding RR|Removing RR/ },
    stopSignal: 'SIGKILL',
  });
}
