// Host names of a TenantControlPlane: those that it names, and those that are generated from a domain exactly as
// kamaji-addon-ingress does.

import { isHostname } from '../cluster/hostname.ts';
import type { TenantControlPlaneOptions } from '../config/config.ts';
import { readHost } from '../config/host.ts';
import { mustBe } from '../config/reading.ts';
import { parseIp } from '../wire/ip-address.ts';
import { flagValue } from './flag-value.ts';
import { isSet } from './json-fields.ts';
import { acceptedHost, type Report, yamlList } from './report.ts';
import type { TenantFields } from './tenant-control-plane.ts';

export interface TenantHosts {
  readonly api: readonly string[];
  readonly konnectivity: string | undefined;
  /** At which clients reach these hosts. */
  readonly port: number;
}

type Exposure = Pick<TenantControlPlaneOptions, 'domain' | 'expose'>;

const HTTPS_PORT = 443;
const MAX_PORT = 65_535;
const INGRESS_HOSTNAME = 'spec.controlPlane.ingress.hostname';
const PROXY_SERVER_HOST = '--proxy-server-host';

export function isExposed(fields: TenantFields, { expose }: Exposure): boolean {
  return expose === 'all' || fields.domain !== undefined || hasHostname(fields);
}

export function tenantHosts(fields: TenantFields, options: Exposure, report: Report): TenantHosts {
  const domain = domainOf(fields, options, report);
  const api = [
    domain && generatedHost('k8s', domain, fields, report),
    hostnameOf(fields, report),
    isSet(fields.gatewayHostname)
      ? acceptedHost(readHost(fields.gatewayHostname), 'spec.controlPlane.gateway.hostname', report)
      : undefined,
  ].filter(host => host !== undefined);
  const hosts = { api: [...new Set(api)], port: clientPort(fields) };
  return { ...hosts, konnectivity: konnectivityHost(fields, domain, hosts.api, report) };
}

/** The port of the hostname, else 443. */
export function clientPort({ ingress }: TenantFields): number {
  return splitPort(ingress?.hostname)?.port ?? HTTPS_PORT;
}

/** The annotation's, or the source's for objects that name no host and for an annotation without a value. */
function domainOf(fields: TenantFields, options: Exposure, report: Report): string | undefined {
  const annotation = fields.domainAnnotation;
  if (isSet(fields.domain)) return acceptedHost(readHost(fields.domain), `annotation ${annotation}`, report);
  if (fields.domain === undefined && hasHostname(fields)) return undefined;
  if (options.domain === undefined && !hasHostname(fields)) {
    const text = 'it has no host: it names neither a domain nor a hostname, and the source has no domain';
    const yaml = `metadata: { annotations: { "${annotation}": "example.com" } }`;
    report('warning', 'HostMissing', text, `Add ${yaml}, or set domain on the source in causeway.yaml`);
  }
  return options.domain;
}

/** `host` or `host:port`. */
function hostnameOf({ ingress }: TenantFields, report: Report): string | undefined {
  const value = ingress?.hostname;
  if (!isSet(value)) return undefined;
  const split = splitPort(value);
  if (split === undefined) return acceptedHost(readHost(value), INGRESS_HOSTNAME, report);
  if (split.port !== undefined) return acceptedHost(readHost(split.host), INGRESS_HOSTNAME, report);
  const fault = mustBe(`"host" or "host:port" with a port from 1 to ${MAX_PORT}`, value);
  return acceptedHost({ fault }, INGRESS_HOSTNAME, report);
}

/** Undefined where there is no single colon; `port` undefined where it is not a port. */
function splitPort(value: unknown): { host: string; port: number | undefined } | undefined {
  const parts = typeof value === 'string' ? value.split(':', 3) : [];
  if (parts.length !== 2) return undefined;
  const [host, text] = parts;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return { host, port: port >= 1 && port <= MAX_PORT ? port : undefined };
}

function generatedHost(
  kind: 'k8s' | 'konnectivity',
  domain: string,
  { object: { namespace, name } }: TenantFields,
  report: Report,
): string | undefined {
  return acceptedHost(
    readHost(`${namespace}-${name}.${kind}.${domain}`),
    `the generated ${kind} host`,
    report,
  );
}

function konnectivityHost(
  fields: TenantFields,
  domain: string | undefined,
  api: readonly string[],
  report: Report,
): string | undefined {
  const { konnectivity } = fields;
  if (konnectivity === undefined) return undefined;
  const given = flagValue(konnectivity.agentArgs, PROXY_SERVER_HOST);
  const isNamed = given !== undefined && given !== '' && parseIp(given) === undefined;
  const host =
    domain !== undefined
      ? generatedHost('konnectivity', domain, fields, report)
      : isNamed
        ? acceptedHost(readHost(given), `${PROXY_SERVER_HOST} of the konnectivity agent`, report)
        : undefined;
  if (domain === undefined && !isNamed) {
    const found = given ? `it is the address ${given}, which is no name` : 'it is not set';
    const text = `konnectivity is on, but has no host that clients could send: the value of ${PROXY_SERVER_HOST} would be it, and ${found}`;
    const args = [`${PROXY_SERVER_HOST}=${suggestedHost(api)}`, `--proxy-server-port=${HTTPS_PORT}`];
    const yaml = `spec: { addons: { konnectivity: { agent: { extraArgs: ${yamlList(args)} } } } }`;
    report('error', 'KonnectivityHostMissing', text, `Add ${yaml}`);
  }
  if (host === undefined || !api.includes(host)) return host;
  const text = `'${host}' is the host of the API server, so konnectivity cannot have it too`;
  report(
    'error',
    'HostInvalid',
    text,
    `Give konnectivity a host of its own, such as '${suggestedHost(api)}'`,
  );
  return undefined;
}

function suggestedHost([host = 'example.com']: readonly string[]): string {
  const parallel = host.replace('.k8s.', '.konnectivity.');
  const suggested = parallel === host ? `konnectivity.${host}` : parallel;
  return isHostname(suggested) ? suggested : 'konnectivity.example.com';
}

function hasHostname({ ingress, gatewayHostname }: TenantFields): boolean {
  return isSet(ingress?.hostname) || isSet(gatewayHostname);
}
