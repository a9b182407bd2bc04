// `causeway render`: prints what a file means to another system. Only what that system reads goes to stdout.

import { isIP } from 'node:net';
import { Document, isScalar, visit } from 'yaml';
import type { Config } from '../config/config.ts';
import { formatMistake } from '../config/mistake.ts';
import { readConfigFile } from '../config/read-config-file.ts';
import { dnsFormats, renderDns } from '../dns/render-dns.ts';
import { rbacFor } from '../outputs/rbac-for.ts';
import { nearest } from '../text/nearest.ts';
import { type Command, configFile, parse, UsageError } from './command.ts';
import { printError } from './terminal.ts';

const MISTAKES = 1;

const help = `causeway render TARGET: Print what a config file means to another system

  causeway render rbac > rbac.yaml
  causeway render dns --format bind --address 203.0.113.10 > example.com.zone

  rbac                 The Roles and ClusterRoles that the file's sources and outputs need, and
                       no more, bound to ServiceAccount causeway in the lease's namespace
                       (default: causeway-system). The namespaces must exist

  dns                  Records that lead every host of the file to the gateway, wildcards too:
    --format FORMAT      bind, windows (PowerShell), infoblox, dnsmasq (Pi-hole), coredns,
                         cloudflare, cloudflared, hosts
    --address IP         The gateway's address, IPv4 or IPv6; give all of them

  -c, --config FILE    The file to read (default: causeway.yaml)

Prints on stdout what the other system reads, and everything else on stderr.

Exit codes: 0; 1 bad config; 64 wrong usage.`;

export const renderCommand: Command = { help, run };

interface Flags {
  readonly format?: string | undefined;
  readonly address?: readonly string[] | undefined;
}

/** Undefined if there is nothing to print; the reason is on stderr. */
type Render = (config: Config, file: string, flags: Flags) => string | undefined;

const targets = { rbac, dns } as const satisfies Record<string, Render>;
type Target = keyof typeof targets;

/** In later versions. */
const laterTargets: readonly string[] = [
  'haproxy',
  'ingress',
  'ingress-route-tcp',
  'tls-route',
  'transport-server',
  'dns-endpoint',
];

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse(
    'render',
    args,
    {
      config: { type: 'string', short: 'c' },
      format: { type: 'string' },
      address: { type: 'string', multiple: true },
    },
    true,
  );
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
  const rendered = targets[target](read.config, file, flags);
  if (rendered === undefined) return MISTAKES;
  process.stdout.write(rendered);
  return 0;
}

/** Before the file is read, so that wrong usage comes first. */
function flagsOf(target: Target, { format, address }: Flags): Flags {
  if (target === 'dns') return { format: dnsFormat(format), address: dnsAddresses(address ?? []) };
  const unused = format === undefined ? address && '--address' : '--format';
  if (unused !== undefined) throw new UsageError(`${unused} is for causeway render dns`);
  return {};
}

function targetOf(given: string | undefined): Target {
  const known = Object.keys(targets) as Target[];
  const target = known.find(each => each === given);
  if (target !== undefined) return target;
  const see = "See 'causeway help render'";
  if (given === undefined) throw new UsageError(`Name a target: ${known.join(', ')}. ${see}`);
  if (laterTargets.includes(given)) throw new UsageError(`This version cannot render '${given}' yet. ${see}`);
  const near = nearest(given, known);
  throw new UsageError(
    `Unknown target '${given}'.${near === undefined ? '' : ` Did you mean '${near}'?`} ${see}`,
  );
}

function dnsFormat(given: string | undefined): string {
  const all = `one of ${dnsFormats.join(', ')}`;
  if (given === undefined) throw new UsageError(`--format is missing: ${all}`);
  if (dnsFormats.includes(given)) return given;
  const near = nearest(given, dnsFormats);
  throw new UsageError(`Unknown --format '${given}': ${near === undefined ? all : `did you mean ${near}?`}`);
}

function dnsAddresses(given: readonly string[]): readonly string[] {
  if (given.length === 0) throw new UsageError('--address is missing: the address of the gateway');
  const wrong = given.find(address => isIP(address) === 0);
  if (wrong !== undefined) throw new UsageError(`--address must be an IPv4 or IPv6 address: ${wrong}`);
  return [...new Set(given)];
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

function dns(config: Config, file: string, { format = '', address = [] }: Flags): string | undefined {
  const hosts = config.clusters.flatMap(({ routes }) => routes.flatMap(route => route.hosts));
  if (config.sources.length > 0)
    printError(`${file}: hosts of clusters that its sources bring are not among these records`);
  const [listener] = config.listen;
  const text = renderDns(format, {
    hosts: [...hosts, ...(config.tunnel?.hosts ?? [])],
    addresses: address,
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
