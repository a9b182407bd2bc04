// The file itself: mistakes, the files that it names, what `causeway check` warns of, and whether a running gateway has
// taken it.

import type { Config } from '../config/config.ts';
import { formatMistake, type Mistake, mistakeAt, type Positions } from '../config/mistake.ts';
import { exposedFiles, judgeFiles, missingKubeconfigs } from '../controller/named-files.ts';
import type { Report } from './check.ts';
import type { RunningGateway } from './running-gateway.ts';

const AS_CHECK = 'Correct the file; causeway check says the same';

export interface ReadFile {
  readonly file: string;
  readonly config: Config;
  readonly warnings: readonly Mistake[];
  readonly positions: Positions;
}

export function reportMistakes(file: string, mistakes: readonly Mistake[], report: Report): void {
  for (const mistake of mistakes)
    report.fail('config', 'ConfigInvalid', formatMistake(file, mistake), AS_CHECK);
}

/** The files that it names, and what `check` warns of. */
export async function checkConfig(
  { file, config, warnings, positions }: ReadFile,
  uid: number | undefined,
  report: Report,
): Promise<void> {
  for (const mistake of await judgeFiles(file, config, positions)) {
    const text = formatMistake(file, mistake);
    if (mistake.isUnread)
      report.warn('config', 'ConfigWarning', text, 'On the machine of the gateway the file must be there');
    else report.fail('config', 'ConfigInvalid', text, AS_CHECK);
  }
  for (const warning of [...warnings, ...(await missingKubeconfigs(file, config, positions))]) {
    report.warn(
      'config',
      'ConfigWarning',
      formatMistake(file, warning),
      'Correct the file, if it is not meant so',
    );
  }
  await checkEngine({ file, config, positions }, report);
  for (const { key, file: secret, mode, fix } of await exposedFiles(file, config, uid)) {
    report.warn(
      'config',
      'ConfigWarning',
      `${key}: ${secret}: other users can read this file (mode ${mode})`,
      fix,
    );
  }
}

/** What `run` refuses where HAProxy is the engine; what else HAProxy cannot do is no fault of the file. */
async function checkEngine(
  { file, config, positions }: Pick<ReadFile, 'file' | 'config' | 'positions'>,
  report: Report,
): Promise<void> {
  if (config.engine !== 'haproxy') return;
  const { unsupportedByHaproxy } = await import('../haproxy/unsupported.ts');
  const refused = unsupportedByHaproxy(config).filter(({ isRefused }) => isRefused);
  reportMistakes(
    file,
    refused.map(({ path, text }) => mistakeAt(positions, path, text)),
    report,
  );
}

/** What the gateway that runs says about the file. */
export function checkRunning(running: RunningGateway | undefined, report: Report): void {
  if (running === undefined) return;
  const { ok, error, restartNeeded } = running.config;
  if (!ok) {
    const text = `The running gateway has refused the last edit of the file: ${error ?? 'see its log'}`;
    report.warn('config', 'ConfigRefused', text, 'Correct the file: until then it serves the last good one');
  }
  if (restartNeeded.length > 0) {
    const text = `The running gateway must be restarted for changes of ${restartNeeded.join(', ')}`;
    report.warn(
      'config',
      'RestartNeeded',
      text,
      'causeway run --replace takes over without a refused connection',
    );
  }
}
