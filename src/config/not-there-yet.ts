// Valid settings that this version does not implement yet, so that `check` and `run` can report them.

import type { Config } from './config.ts';

export interface NotThereYet {
  /** Serving without these would change who reaches what, so `run` refuses the file. */
  readonly refused: readonly string[];
  /** Serving without these is safe. */
  readonly ignored: readonly string[];
}

export function notThereYet(config: Config): NotThereYet {
  const { engine, outputs, sources } = config;
  return {
    refused: phrases([
      [sources.length > 0, 'clusters from Kubernetes or a directory (sources)'],
      [outputs.length > 0, 'objects in Kubernetes and DNS (outputs)'],
      [engine === 'haproxy', `engine: ${engine}`],
    ]),
    ignored: phrases([
      [config.stateDir !== undefined, 'the saved table (stateDir)'],
      [config.lease !== undefined, 'the lease of the writing replica (lease)'],
      [config.statusAnnotation !== undefined, 'status written back to Kubernetes (statusAnnotation)'],
    ]),
  };
}

function phrases(entries: readonly (readonly [boolean, string])[]): readonly string[] {
  return entries.filter(([used]) => used).map(([, phrase]) => phrase);
}
