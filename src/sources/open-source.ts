// The sources that exist, by kind.

import type { SourceKind, SourceOptions, SourceSettings } from '../config/config.ts';
import { openClusterApi } from './cluster-api.ts';
import { openDirectory } from './directory.ts';
import { openHypershift } from './hypershift.ts';
import { openK0smotron } from './k0smotron.ts';
import { openKubermatic } from './kubermatic.ts';
import { openServices } from './services.ts';
import type { OpenSource, Source, SourceContext } from './source.ts';
import { openKamaji, openSteward } from './tenant-control-planes.ts';

const openers: { readonly [Kind in SourceKind]?: OpenSource<SourceOptions[Kind]> } = {
  kamaji: openKamaji,
  steward: openSteward,
  hypershift: openHypershift,
  kubermatic: openKubermatic,
  services: openServices,
  clusterApi: openClusterApi,
  k0smotron: openK0smotron,
  directory: openDirectory,
};

export function openSource(settings: SourceSettings, context: SourceContext, changed: () => void): Source {
  const open = openers[settings.kind] as OpenSource<SourceSettings['options']>;
  return open(settings.options, context, changed);
}
