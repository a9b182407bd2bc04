// `causeway explain`: shows what would happen to a connection, stage by stage, by a file or by a running gateway.

import { formatMistake } from '../config/mistake.ts';
import { readConfigFile } from '../config/read-config-file.ts';
import { listenersOf } from '../controller/listeners.ts';
import { Explainer, type Explanation, QuestionError } from '../gateway/table/explain.ts';
import { questionProtocols as protocols, type Question } from '../gateway/table/question.ts';
import { questionTarget } from '../gateway/table/question-target.ts';
import { plan } from '../plan/plan.ts';
import { printable } from '../text/printable.ts';
import { AdminClientError } from './admin-client.ts';
import { adminClient, adminFlags, adminFlagsHelp } from './admin-flags.ts';
import { type Command, configFile, parse, UsageError } from './command.ts';
import { painter, printError, writeJson } from './terminal.ts';

const REFUSED = 1;
const CANNOT_SAY = 2;

const help = `causeway explain HOST: Show what would happen to a connection, and why

  causeway explain api.lab.example.com
  causeway explain https://api.lab.example.com:6443/ --from 192.0.2.7
  causeway explain lab --protocol connect --from 10.64.0.9
  causeway explain --id 0b9c7c0e-… --from 10.64.0.9

  HOST                 A server name, Host, CONNECT name, HOST:PORT or URL: https means TLS, http
                       means HTTP, and the port selects the listener. Optional with --id
  --from IP            The client's address; without it allow lists are not checked
  --protocol PROTOCOL  ${protocols.join(', ')} (default: that of the URL, else tls)
  --id ID              The cluster id in an agent's PROXY header
  --on LISTENER        As in the file, such as :6443 (default: the first that serves the host)
  --json               { served, reason, cluster, route, backend, stages } on stdout

  -c, --config FILE    The file to use (default: causeway.yaml). Nothing is dialled, and
                       all backends count as up
  --admin URL          Ask a running gateway instead, which knows the health of its backends
${adminFlagsHelp}

Exit codes: 0 served; 1 refused, or would fail; 2 bad config, or the gateway is unreachable;
64 wrong usage.`;

export const explainCommand: Command = { help, run };

const flags = {
  config: { type: 'string', short: 'c' },
  from: { type: 'string' },
  protocol: { type: 'string' },
  id: { type: 'string' },
  on: { type: 'string' },
  json: { type: 'boolean' },
  ...adminFlags,
} as const;

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse('explain', args, flags, true);
  const protocol = protocols.find(candidate => candidate === values.protocol);
  if (values.protocol !== undefined && protocol === undefined) {
    throw new UsageError(`--protocol must be one of ${protocols.join(', ')}: ${values.protocol}`);
  }
  if (positionals.length > 1 || (positionals.length === 0 && values.id === undefined)) {
    throw new UsageError('Give exactly one host: causeway explain api.lab.example.com');
  }
  const { from, id, on } = values;
  const question = asQuestion(() => ({
    ...questionTarget(positionals[0] ?? '', protocol),
    ...(from !== undefined && { from }),
    ...(id !== undefined && { id }),
    ...(on !== undefined && { on }),
  }));
  if (id !== undefined && question.protocol !== 'tls') {
    throw new UsageError(
      '--id is the id in a PROXY header, which is followed by TLS; for CONNECT give the id as HOST',
    );
  }
  if (values.admin !== undefined && values.config !== undefined) {
    throw new UsageError('Give either -c to use a file or --admin to ask a running gateway, not both');
  }
  const explanation =
    values.admin === undefined
      ? await explainFile(configFile('explain', values.config), question)
      : await askGateway(values, question);
  if (explanation === undefined) return CANNOT_SAY;
  if (values.json === true) writeJson(explanation);
  else process.stdout.write(explanationText(explanation, painter(process.stdout)));
  return explanation.served ? 0 : REFUSED;
}

/** Undefined for a bad file, after its mistakes were printed. */
async function explainFile(file: string, question: Question): Promise<Explanation | undefined> {
  const read = await readConfigFile(file);
  if (!read.ok) {
    printError(...read.mistakes.map(mistake => formatMistake(file, mistake)));
    return undefined;
  }
  const explainer = new Explainer(plan(read.config.clusters).clusters, listenersOf(read.config), {
    tunnelHosts: read.config.tunnel?.hosts ?? [],
  });
  return asQuestion(() => explainer.explain(question));
}

async function askGateway(
  values: Parameters<typeof adminClient>[0],
  question: Question,
): Promise<Explanation | undefined> {
  const query = new URLSearchParams(
    Object.entries(question).map(([name, value]): [string, string] => [name, String(value)]),
  );
  try {
    return (await adminClient(values).get(`/api/v1/explain?${query}`)) as Explanation;
  } catch (error) {
    if (!(error instanceof AdminClientError)) throw error;
    printError(`causeway: ${error.message}`);
    return undefined;
  }
}

function asQuestion<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof QuestionError)) throw error;
    throw new UsageError(error.message, { cause: error });
  }
}

function explanationText(
  { served, reason, cluster, route, backend, stages }: Explanation,
  paint: ReturnType<typeof painter>,
): string {
  const lines = stages.map(({ stage, ok, text }) => {
    const mark = ok ? paint('32', '✓') : paint('31', '✗');
    return `${mark} ${printable(stage).padEnd(8)} ${printable(text)}`;
  });
  return `${lines.join('\n')}\n${paint(served ? '32' : '31', printable(outcome()))}\n`;

  function outcome(): string {
    if (!served) return `${reason === 'connect-failed' ? 'would fail' : 'refused'}: ${reason}`;
    const server = cluster === null ? 'the tunnel endpoint for agents' : `${cluster}/${route}`;
    return `served by ${server}${backend === null ? '' : ` at ${backend}`}`;
  }
}
