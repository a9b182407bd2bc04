// Valid settings that this version does not implement yet, so that `check` and `run` can report them.

import type { Config, OutputKind, SourceKind } from './config.ts';

const missingSources: ReadonlySet<SourceKind> = new Set();
const missingOutputs: ReadonlySet<OutputKind> = new Set(['dnsServer']);

/** `run` refuses the file, since serving without them would change who reaches what. */
export function notThereYet({ engine, outputs, sources }: Config): readonly string[] {
  const kinds = (plugged: readonly { readonly kind: string }[], missing: ReadonlySet<string>) =>
    [...new Set(plugged.map(({ kind }) => kind))].filter(kind => missing.has(kind));
  return [
    ...kinds(sources, missingSources).map(kind => `the source '${kind}'`),
    ...kinds(outputs, missingOutputs).map(kind => `the output '${kind}'`),
    ...(engine === 'haproxy' ? [`engine: ${engine}`] : []),
  ];
}
