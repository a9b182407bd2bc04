// `causeway check`: reads the file as `run` would and says what is wrong with it.

import { type Config, engines } from '../config/config.ts';
import { byPlace, formatMistake, type Mistake, mistakeAt } from '../config/mistake.ts';
import { notThereYet } from '../config/not-there-yet.ts';
import { readConfigFile } from '../config/read-config-file.ts';
import { judgeFiles } from '../controller/named-files.ts';
import { openFilesWarning } from '../gateway/open-files.ts';
import { plan } from '../plan/plan.ts';
import { type Command, parse, requireFile, UsageError } from './command.ts';
import { openFileLimit } from './open-file-limit.ts';
import { painter } from './terminal.ts';

const MISTAKES = 1;

const help = `causeway check -c FILE: reads the file as run would, and says what is wrong with it

  -c, --config FILE   causeway.yaml
  --engine ENGINE     also says what that engine cannot do: ${engines.join(', ')}
  --json              { ok, mistakes, warnings, notThereYet, counts } on stdout

Every mistake is reported, not only the first, as FILE:LINE:COLUMN: KEY: SENTENCE on stderr.

Exit codes: 0 fine; 1 mistakes; 64 wrong usage.`;

export const checkCommand: Command = {
  name: 'check',
  summary: 'says what is wrong with the file',
  help,
  run,
};

async function run(args: readonly string[]): Promise<number> {
  const { values } = parse('check', args, {
    config: { type: 'string', short: 'c' },
    engine: { type: 'string' },
    json: { type: 'boolean' },
  });
  const file = requireFile('check', values.config);
  const engine = engines.find(candidate => candidate === values.engine);
  if (values.engine !== undefined && engine === undefined) {
    throw new UsageError(`--engine must be one of ${engines.join(', ')}: ${values.engine}`);
  }
  const read = await readConfigFile(file);
  const config: Config | undefined = read.ok
    ? { ...read.config, ...(engine !== undefined && { engine }) }
    : undefined;
  const files = read.ok ? await judgeFiles(file, read.config, read.places) : [];
  // Only a warning, although run refuses: secrets need not be where the file is checked.
  const unread = files
    .filter(({ isUnread }) => isUnread)
    .map(mistake => ({ ...mistake, text: `run will refuse to start: ${mistake.text}` }));
  const misfit = read.ok ? openFilesWarning(read.config.limits.connections, openFileLimit()) : undefined;
  const misfits =
    read.ok && misfit !== undefined ? [mistakeAt(read.places, 'limits.connections', misfit)] : [];
  const report: Report = {
    mistakes: read.ok ? files.filter(({ isUnread }) => !isUnread) : read.mistakes,
    warnings: read.ok ? [...read.warnings, ...unread, ...misfits].toSorted(byPlace) : [],
    missing: config === undefined ? { refused: [], ignored: [] } : notThereYet(config),
    counts: config === undefined ? undefined : plan(config.clusters).counts,
  };
  const ok = report.mistakes.length === 0 && report.missing.refused.length === 0;
  if (values.json === true) writeJson(report, ok);
  else writeText(file, report, ok);
  return ok ? 0 : MISTAKES;
}

interface Report {
  readonly mistakes: readonly Mistake[];
  readonly warnings: readonly Mistake[];
  readonly missing: ReturnType<typeof notThereYet>;
  readonly counts: ReturnType<typeof plan>['counts'] | undefined;
}

function writeJson({ mistakes, warnings, missing, counts }: Report, ok: boolean): void {
  const place = ({ line, column, path, text }: Mistake) => ({ line, column, path, text });
  const body = {
    ok,
    mistakes: mistakes.map(place),
    warnings: warnings.map(place),
    notThereYet: missing,
    counts: counts ?? null,
  };
  process.stdout.write(`${JSON.stringify(body, null, 2)}\n`);
}

function writeText(file: string, { mistakes, warnings, missing, counts }: Report, ok: boolean): void {
  const paint = painter(process.stderr);
  const say = (text: string) => process.stderr.write(`${text}\n`);
  for (const mistake of mistakes) say(formatMistake(file, mistake));
  for (const warning of warnings) say(`${paint('33', 'warning:')} ${formatMistake(file, warning)}`);
  if (missing.refused.length > 0) {
    say(`${file}: this version does not have ${missing.refused.join(', ')} yet, and run refuses the file`);
  }
  if (missing.ignored.length > 0) {
    say(`${paint('33', 'warning:')} ${file}: this version does not have yet: ${missing.ignored.join('; ')}`);
  }
  if (ok && counts !== undefined) {
    const { clusters, routes, hosts } = counts;
    process.stdout.write(
      `ok: ${several(clusters, 'cluster')}, ${several(routes, 'route')}, ${several(hosts, 'host')}\n`,
    );
  }
}

function several(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
