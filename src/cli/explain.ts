// `causeway explain`: what would happen to a connection, stage by stage.

import { formatMistake } from '../config/mistake.ts';
import { readConfigFile } from '../config/read-config-file.ts';
import { listenersOf } from '../controller/listeners.ts';
import {
  Explainer,
  type Explanation,
  questionProtocols as protocols,
  type Question,
  QuestionError,
} from '../gateway/table/explain.ts';
import { plan } from '../plan/plan.ts';
import { printable } from '../text/printable.ts';
import { type Command, parse, requireFile, UsageError } from './command.ts';
import { painter, tell, writeJson } from './terminal.ts';

const REFUSED = 1;
const BAD_CONFIG = 2;

const help = `causeway explain -c FILE HOST: what would happen to that connection, and why

  -c, --config FILE   causeway.yaml
  HOST                server name, Host or CONNECT name; may be left out with --id
  --from IP           the client's address; without it allow lists are not looked up
  --protocol P        ${protocols.join(', ')}; default tls
  --id ID             the cluster id in an agent's PROXY header
  --on LISTENER       as in the file, such as :6443; default: the first that shows the host
  --json              { served, reason, cluster, route, backend, stages } on stdout

Nothing is dialled, and all backends count as up; GET /api/v1/explain of a running gateway
knows their health. Exit codes: 0 served; 1 refused; 2 bad config; 64 wrong usage.`;

export const explainCommand: Command = {
  name: 'explain',
  summary: 'says what would happen to a connection, and why',
  help,
  run,
};

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse(
    'explain',
    args,
    {
      config: { type: 'string', short: 'c' },
      from: { type: 'string' },
      protocol: { type: 'string', default: 'tls' },
      id: { type: 'string' },
      on: { type: 'string' },
      json: { type: 'boolean' },
    },
    true,
  );
  const file = requireFile('explain', values.config);
  const protocol = protocols.find(candidate => candidate === values.protocol);
  if (protocol === undefined) {
    throw new UsageError(`--protocol must be one of ${protocols.join(', ')}: ${values.protocol}`);
  }
  if (positionals.length > 1 || (positionals.length === 0 && values.id === undefined)) {
    throw new UsageError('Name one host: causeway explain -c causeway.yaml api.lab.example.com');
  }
  if (values.id !== undefined && protocol !== 'tls') {
    throw new UsageError(
      '--id is the id in a PROXY header, which TLS follows; for CONNECT give the id as HOST',
    );
  }
  const read = await readConfigFile(file);
  if (!read.ok) {
    tell(...read.mistakes.map(mistake => formatMistake(file, mistake)));
    return BAD_CONFIG;
  }
  const { from, id, on } = values;
  const question: Question = {
    host: positionals[0] ?? '',
    protocol,
    ...(from !== undefined && { from }),
    ...(id !== undefined && { id }),
    ...(on !== undefined && { on }),
  };
  const explainer = new Explainer(plan(read.config.clusters).clusters, listenersOf(read.config), {
    tunnelHosts: read.config.tunnel?.hosts ?? [],
  });
  const explanation = answer(explainer, question);
  if (values.json === true) writeJson(explanation);
  else process.stdout.write(explanationText(explanation, painter(process.stdout)));
  return explanation.served ? 0 : REFUSED;
}

function answer(explainer: Explainer, question: Question): Explanation {
  try {
    return explainer.explain(question);
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
    return `${mark} ${stage.padEnd(8)} ${printable(text)}`;
  });
  const whom = cluster === null ? "the end of the agents' tunnels" : `${cluster}/${route}`;
  const end = served
    ? paint('32', printable(`served by ${whom}${backend === null ? '' : ` at ${backend}`}`))
    : paint('31', `refused: ${reason}`);
  return `${lines.join('\n')}\n${end}\n`;
}
