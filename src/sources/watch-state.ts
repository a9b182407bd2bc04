// What the reflectors of a source say about how far its clusters can be trusted: the part of an Observation that is not
// clusters.

import type { Finding } from '../cluster/finding.ts';
import type { Reflector } from '../kube/reflector.ts';
import type { Observation } from './source.ts';

export type WatchState = Omit<Observation, 'clusters'>;

export interface Watched {
  /** In the plural, for messages: `Services`. */
  readonly what: string;
  readonly reflector: Pick<Reflector<unknown>, 'synced' | 'absent' | 'emptied' | 'error'>;
}

export function watchState(source: string, watched: readonly Watched[]): WatchState {
  const error = watched.map(errorOf).find(each => each !== undefined);
  return {
    synced: watched.every(({ reflector }) => reflector.synced || reflector.absent),
    // An emptied list is an error too.
    complete: error === undefined && watched.every(({ reflector }) => reflector.synced && !reflector.absent),
    findings: watched.flatMap(each => findingOf(source, each) ?? []),
    ...(error !== undefined && { error }),
  };
}

/** Of objects and of the Services that they need: without those, every cluster would seem to have lost its own. */
export function joinedState(own: WatchState, services: WatchState): WatchState {
  const error = own.error ?? services.error;
  return {
    synced: own.synced && services.synced,
    complete: own.complete && services.complete,
    findings: [...own.findings, ...services.findings],
    ...(error !== undefined && { error }),
  };
}

function errorOf({ what, reflector }: Watched): string | undefined {
  if (reflector.error !== undefined) return reflector.error;
  return reflector.emptied ? emptied(what) : undefined;
}

function findingOf(source: string, { what, reflector }: Watched): Finding | undefined {
  const origin = { source };
  if (reflector.absent) {
    return {
      origin,
      severity: 'warning',
      code: 'SourceCrdMissing',
      text: reflector.error ?? `The API server does not serve ${what}`,
      fix: `Install what defines ${what}, or remove the source '${source}' from the file; known clusters are kept`,
    };
  }
  if (!reflector.emptied) return undefined;
  return {
    origin,
    severity: 'warning',
    code: 'SourceEmpty',
    text: emptied(what),
    fix: 'If they were deleted on purpose, wait 5 minutes; else look at the API server and its storage',
  };
}

function emptied(what: string): string {
  return `The API server lists no ${what} where there were some: the last ones are kept until this is confirmed`;
}
