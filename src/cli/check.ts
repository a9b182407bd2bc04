// `causeway check`: reads the file as `run` would and reports its mistakes.

import { type Config, engines } from '../config/config.ts';
import { byPlace, formatMistake, type Mistake, mistakeAt, type Positions } from '../config/mistake.ts';
import { readConfigFile } from '../config/read-config-file.ts';
import { exposedFiles, judgeFiles, missingKubeconfigs } from '../controller/named-files.ts';
import { openFilesWarning } from '../gateway/open-files.ts';
import { unsupportedByHaproxy } from '../haproxy/unsupported.ts';
import { plan } from '../plan/plan.ts';
import { printable } from '../text/printable.ts';
import { type Command, configFile, parse, UsageError } from './command.ts';
import { countText } from './count-text.ts';
import { openFileLimit } from './open-file-limit.ts';
import { painter, writeJson } from './terminal.ts';

const MISTAKES = 1;

const help = `causeway check [FILE]: Validate a config file

  FILE                 The same as -c FILE
  -c, --config FILE    The file to read (default: causeway.yaml)
  --engine ENGINE      Also report what that engine does not support: ${engines.join(', ')}
  --json               { ok, mistakes, warnings, counts } on stdout

Reads the file as run would, including the certificates and secrets that it names, and reports
every mistake as FILE:LINE:COLUMN: KEY: MESSAGE on stderr. Warns about settings that are valid
but probably unintended, about secret files that others can read, and about kubeconfigs that
do not exist. With engine haproxy, also reports what HAProxy cannot do: as a mistake where run
would refuse the file, otherwise as a warning.

Exit codes: 0 valid; 1 mistakes; 64 wrong usage.`;

export const checkCommand: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse(
    'check',
    args,
    { config: { type: 'string', short: 'c' }, engine: { type: 'string' }, json: { type: 'boolean' } },
    true,
  );
  const file = configFile('check', values.config, positionals);
  const engine = engines.find(candidate => candidate === values.engine);
  if (values.engine !== undefined && engine === undefined) {
    throw new UsageError(`--engine must be one of ${engines.join(', ')}: ${values.engine}`);
  }
  const read = await readConfigFile(file);
  const config: Config | undefined = read.ok
    ? { ...read.config, ...(engine !== undefined && { engine }) }
    : undefined;
  const files = read.ok ? await judgeFiles(file, read.config, read.positions) : [];
  // Only a warning, although run would refuse it: the machine that checks the file need not have the secrets.
  const unread = files
    .filter(({ isUnread }) => isUnread)
    .map(mistake => ({ ...mistake, text: `causeway run would refuse to start: ${mistake.text}` }));
  const misfit = read.ok ? openFilesWarning(read.config.limits.connections, openFileLimit()) : undefined;
  const misfits =
    read.ok && misfit !== undefined ? [mistakeAt(read.positions, 'limits.connections', misfit)] : [];
  const unsupported =
    read.ok && config?.engine === 'haproxy'
      ? unsupportedByHaproxy(config).map(({ path, text, isRefused }) => ({
          ...mistakeAt(read.positions, path, text),
          isRefused,
        }))
      : [];
  const report: Report = {
    mistakes: read.ok
      ? [
          ...files.filter(({ isUnread }) => !isUnread),
          ...unsupported.filter(({ isRefused }) => isRefused),
        ].toSorted(byPlace)
      : read.mistakes,
    warnings: read.ok
      ? [
          ...read.warnings,
          ...unsupported.filter(({ isRefused }) => !isRefused),
          ...unread,
          ...misfits,
          ...(await missingKubeconfigs(file, read.config, read.positions)),
          ...(await exposed(file, read.config, read.positions)),
        ].toSorted(byPlace)
      : [],
    counts: config === undefined ? undefined : plan(config.clusters).counts,
  };
  const ok = report.mistakes.length === 0;
  if (values.json === true) writeReport(report, ok);
  else writeText(file, report, ok);
  return ok ? 0 : MISTAKES;
}

async function exposed(file: string, config: Config, positions: Positions): Promise<readonly Mistake[]> {
  return (await exposedFiles(file, config, process.getuid?.())).map(({ key, file, mode, fix }) => {
    // A single user may be written without a list.
    const path = positions.has(key) ? key : key.replace(/^admin\.auth\[0\]/, 'admin.auth');
    return mistakeAt(positions, path, `${file}: other users can read this file (mode ${mode}): ${fix}`);
  });
}

interface Report {
  readonly mistakes: readonly Mistake[];
  readonly warnings: readonly Mistake[];
  readonly counts: ReturnType<typeof plan>['counts'] | undefined;
}

function writeReport({ mistakes, warnings, counts }: Report, ok: boolean): void {
  // null for a mistake that concerns the file as a whole.
  const place = ({ line, column, path, text }: Mistake) => ({
    line: line || null,
    column: column || null,
    path,
    text,
  });
  const body = {
    ok,
    mistakes: mistakes.map(place),
    warnings: warnings.map(place),
    counts: counts ?? null,
  };
  writeJson(body);
}

function writeText(file: string, { mistakes, warnings, counts }: Report, ok: boolean): void {
  const paint = painter(process.stderr);
  const print = (line: string, mark = '') => process.stderr.write(`${mark}${printable(line)}\n`);
  const warn = (line: string) => print(line, `${paint('33', 'warning:')} `);
  for (const mistake of mistakes) print(formatMistake(file, mistake));
  for (const warning of warnings) warn(formatMistake(file, warning));
  if (ok && counts !== undefined) {
    const { clusters, routes, hosts } = counts;
    process.stdout.write(
      `ok: ${countText(clusters, 'cluster')}, ${countText(routes, 'route')}, ${countText(hosts, 'host')}\n`,
    );
  }
}
