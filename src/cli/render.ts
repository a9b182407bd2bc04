// `causeway render`: prints what a file means to another system. Only what that system reads goes to stdout.

import { Document, isScalar, visit } from 'yaml';
import type { Config } from '../config/config.ts';
import { formatMistake, type Positions } from '../config/mistake.ts';
import { readConfigFile } from '../config/read-config-file.ts';
import { renderDns } from '../dns/render-dns.ts';
import { type HaproxyVersion, RENDERED } from '../haproxy/haproxy-version.ts';
import { rbacFor } from '../outputs/rbac-for.ts';
import { nearest } from '../text/nearest.ts';
import { type Command, configFile, parse, UsageError } from './command.ts';
import { dnsAddresses, dnsFormat, hostsOfConfig, ipAddresses } from './dns-flags.ts';
import { haproxy, haproxyVersion } from './render-haproxy.ts';
import {
  isKubeTarget,
  type KubeFlags,
  kubeFlags,
  kubeFlagTargets,
  kubeOptions,
  kubeTargets,
  renderKube,
} from './render-kube.ts';
import { letReaderLeave, printError } from './terminal.ts';

const MISTAKES = 1;

const help = `causeway render TARGET: Print what a config file means to another system

  causeway render haproxy > haproxy.cfg
  causeway render tls-route --class-name cilium | kubectl apply -f -
  causeway render rbac > rbac.yaml
  causeway render dns --format bind --address 203.0.113.10 > example.com.zone

  haproxy              A configuration for HAProxy that needs nothing besides
    --haproxy-version V  2.6 to 3.x (default: 3.0); from 2.9 on it reads cluster ids from any TLV

  ingress              For an ingress controller that you have: the file's hosts pass through it
  ingress-route-tcp    by SNI, and a Service without a selector, with EndpointSlices, leads to
  tls-route            the backends of each route. tls-route prints the Gateway too
  transport-server
    --flavor FLAVOR      ingress: haproxy (default), haproxy-ingress, nginx, cilium, generic
    --class-name CLASS   ingress, transport-server, and the class of the Gateway
    --entry-point NAME   ingress-route-tcp: Traefik's; give all (default: websecure)
    --gateway [NS/]NAME  tls-route: a Gateway that exists; none is printed
    --api-version V      tls-route: v1 (default; Gateway API 1.5), v1alpha3, v1alpha2

  dns-endpoint         The file's hosts for external-dns
    --address IP         The gateway's address, IPv4 or IPv6; give all of them

    -n, --namespace NS   For these objects (default: that of kubectl)
                       What a flag does not say is taken from the file's output of that kind

  rbac                 The Roles and ClusterRoles that the file's sources and outputs need, and
                       no more, bound to ServiceAccount causeway in the lease's namespace
                       (default: causeway-system). The namespaces must exist

  dns                  Records that lead every host of the file to the gateway, wildcards too:
    --format FORMAT      bind, windows (PowerShell), infoblox, dnsmasq (Pi-hole), coredns,
                         cloudflare, cloudflared, hosts
    --address IP         The gateway's address, IPv4 or IPv6; give all of them

  -c, --config FILE    The file to read (default: causeway.yaml)

Prints on stdout what the other system reads; on stderr what of the file it leaves out.

Exit codes: 0; 1 bad config, or nothing to print; 64 wrong usage.`;

export const renderCommand: Command = { help, run };

interface Flags extends KubeFlags {
  readonly format?: string;
  readonly addresses?: readonly string[];
  readonly version?: HaproxyVersion;
}

/** Undefined if there is nothing to print; the reason is on stderr. */
type Render = (config: Config, file: string, flags: Flags, positions: Positions) => string | undefined;

const targets: Readonly<Record<string, Render>> = {
  haproxy: (config, file, { version = RENDERED }, positions) => haproxy(config, file, version, positions),
  ...Object.fromEntries(
    kubeTargets.map((target): [string, Render] => [
      target,
      (config, file, flags) => renderKube(target, config, file, flags),
    ]),
  ),
  rbac,
  dns,
};

const options = {
  config: { type: 'string', short: 'c' },
  format: { type: 'string' },
  address: { type: 'string', multiple: true },
  'haproxy-version': { type: 'string' },
  ...kubeOptions,
} as const;
type Values = ReturnType<typeof parse<typeof options>>['values'];

/** The targets that take a flag; each takes the file. */
const flagTargets: Readonly<Record<Exclude<keyof Values, 'config'>, readonly string[]>> = {
  format: ['dns'],
  address: ['dns', 'dns-endpoint'],
  'haproxy-version': ['haproxy'],
  ...kubeFlagTargets,
};

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse('render', args, options, true);
  const [given, ...others] = positionals;
  const target = targetOf(given);
  if (others.length > 0)
    throw new UsageError(`Give the file with -c: causeway render ${target} -c ${others[0]}`);
  const flags = flagsOf(target, values);
  const file = configFile(`render ${target}`, values.config);
  const read = await readConfigFile(file);
  if (!read.ok) {
    printError(...read.mistakes.map(mistake => formatMistake(file, mistake)));
    return MISTAKES;
  }
  const rendered = targets[target](read.config, file, flags, read.positions);
  if (rendered === undefined) return MISTAKES;
  letReaderLeave();
  process.stdout.write(rendered);
  return 0;
}

/** Before the file is read, so that wrong usage comes first. */
function flagsOf(target: string, values: Values): Flags {
  for (const [flag, takers] of Object.entries(flagTargets))
    if (values[flag as keyof Values] !== undefined && !takers.includes(target))
      throw new UsageError(`--${flag} is for causeway render ${takers.join(', ')}`);
  const { format, address = [] } = values;
  if (target === 'haproxy') return { version: haproxyVersion(values['haproxy-version']) };
  if (isKubeTarget(target)) return { ...kubeFlags(values), addresses: ipAddresses(address) };
  if (target !== 'dns') return {};
  return { format: dnsFormat(format), addresses: dnsAddresses(address) };
}

function targetOf(given: string | undefined): string {
  const known = Object.keys(targets);
  const target = known.find(each => each === given);
  if (target !== undefined) return target;
  const see = "See 'causeway help render'";
  if (given === undefined) throw new UsageError(`Name a target: ${known.join(', ')}. ${see}`);
  const near = nearest(given, known);
  throw new UsageError(
    `Unknown target '${given}'.${near === undefined ? '' : ` Did you mean '${near}'?`} ${see}`,
  );
}

function rbac(config: Config, file: string): string {
  const servers = rbacFor(config);
  if (servers.length === 0) {
    printError(`${file}: no permissions are needed: it has neither sources nor outputs in Kubernetes`);
  }
  return servers
    .flatMap(({ notes, objects }) =>
      objects.map((object, index) => {
        const comments = index === 0 ? notes.map(note => `# ${note}\n`).join('') : '';
        return `---\n${comments}${yamlOf(object)}`;
      }),
    )
    .join('');
}

function dns(config: Config, file: string, { format = '', addresses = [] }: Flags): string | undefined {
  if (config.sources.length > 0)
    printError(`${file}: hosts of clusters that its sources bring are not among these records`);
  const [listener] = config.listen;
  const text = renderDns(format, {
    hosts: hostsOfConfig(config),
    addresses,
    port: listener.port === 0 ? 443 : listener.port,
    serial: Math.floor(Date.now() / 1000),
  });
  if (text === undefined) printError(`${file}: no cluster has a host, so there is nothing to name`);
  return text;
}

/** Lists of words on one line: rules are read as a table. */
function yamlOf(object: object): string {
  const document = new Document(object, { aliasDuplicateObjects: false });
  visit(document, {
    Seq(_, list) {
      list.flow = list.items.every(isScalar);
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}
