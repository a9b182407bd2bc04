// `causeway render`: prints what a file means to another system. Only YAML goes to stdout.

import { Document, isScalar, visit } from 'yaml';
import type { Config } from '../config/config.ts';
import { formatMistake } from '../config/mistake.ts';
import { readConfigFile } from '../config/read-config-file.ts';
import { rbacFor } from '../outputs/rbac-for.ts';
import { nearest } from '../text/nearest.ts';
import { type Command, configFile, parse, UsageError } from './command.ts';
import { printError } from './terminal.ts';

const MISTAKES = 1;

const help = `causeway render TARGET: Print what a config file means to another system

  causeway render rbac > rbac.yaml

  rbac                 The Roles and ClusterRoles that the file's sources and outputs need, and
                       no more, bound to ServiceAccount causeway in the lease's namespace
                       (default: causeway-system). The namespaces must exist

  -c, --config FILE    The file to read (default: causeway.yaml)

Prints YAML documents on stdout, and everything else on stderr.

Exit codes: 0; 1 bad config; 64 wrong usage.`;

export const renderCommand: Command = { help, run };

const targets = { rbac } as const satisfies Record<string, (config: Config, file: string) => string>;
type Target = keyof typeof targets;

/** In later versions. */
const laterTargets: readonly string[] = [
  'haproxy',
  'ingress',
  'ingress-route-tcp',
  'tls-route',
  'transport-server',
  'dns-endpoint',
  'dns',
];

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse('render', args, { config: { type: 'string', short: 'c' } }, true);
  const [given, ...others] = positionals;
  const target = targetOf(given);
  if (others.length > 0)
    throw new UsageError(`Give the file with -c: causeway render ${target} -c ${others[0]}`);
  const file = configFile(`render ${target}`, values.config);
  const read = await readConfigFile(file);
  if (!read.ok) {
    printError(...read.mistakes.map(mistake => formatMistake(file, mistake)));
    return MISTAKES;
  }
  process.stdout.write(targets[target](read.config, file));
  return 0;
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
