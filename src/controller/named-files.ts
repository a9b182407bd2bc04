// Checks the files that causeway.yaml names together with it, so that `check` and `run` report all of them at once,
// with positions. The modules that use these files read them again and watch them from then on.

import { access } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { Config, KeyPairFiles } from '../config/config.ts';
import { type ExposedFile, exposedFile } from '../config/exposed-file.ts';
import { judgeKeyPair } from '../config/key-pair.ts';
import { byPlace, type Mistake, mistakeAt, type Positions } from '../config/mistake.ts';
import { readSecretFile } from '../identity/secret-file.ts';

export interface FileMistake extends Mistake {
  /** The file is missing or not readable here; on another machine it may be fine. */
  readonly isUnread: boolean;
}

/**
 * The mistakes in the files that `config` names, in its order. Skips files that `served` already names: their last
 * good content stays in use, and their watches report problems.
 */
export async function judgeFiles(
  file: string,
  config: Config,
  positions: Positions,
  served?: Config,
): Promise<readonly FileMistake[]> {
  const known = new Set(served === undefined ? [] : namedFiles(served).map(nameOf));
  const named = namedFiles(config).filter(one => !known.has(nameOf(one)));
  const folder = dirname(file);
  const judged = await Promise.all(
    named.map(one => ('secretFile' in one ? judgeSecrets(one, folder) : judgePair(one, folder))),
  );
  return judged
    .flat()
    .map(({ path, text, isUnread }) => ({ ...mistakeAt(positions, path, text), isUnread }))
    .toSorted(byPlace);
}

/** Kubeconfigs of sources that do not exist. `run` starts all the same and waits for them. */
export async function missingKubeconfigs(
  file: string,
  { sources }: Config,
  positions: Positions,
): Promise<readonly Mistake[]> {
  const found = sources.map(async ({ kind, options }, index) => {
    if (!('kubeconfig' in options) || options.kubeconfig === undefined) return [];
    const kubeconfig = resolve(dirname(file), options.kubeconfig);
    const exists = await access(kubeconfig).then(
      () => true,
      ({ code }: NodeJS.ErrnoException) => code !== 'ENOENT' && code !== 'ENOTDIR',
    );
    const text = `${kubeconfig}: there is no such file: causeway run would wait for it before it reads this source`;
    return exists ? [] : [mistakeAt(positions, `sources[${index}].${kind}.kubeconfig`, text)];
  });
  return (await Promise.all(found)).flat();
}

/** Secrets, keys and passwords that other local users could read, with the keys of causeway.yaml that name them. */
export async function exposedFiles(
  file: string,
  config: Config,
  uid: number | undefined,
): Promise<readonly (ExposedFile & { readonly key: string })[]> {
  const found = secretFiles(config).map(async ([key, name]) => {
    const exposed = await exposedFile(resolve(dirname(file), name), uid);
    return exposed === undefined ? [] : [{ key, ...exposed }];
  });
  return (await Promise.all(found)).flat();
}

function secretFiles({ admin, identity, tunnel }: Config): (readonly [key: string, file: string])[] {
  const certificates = tunnel?.certificates ?? [];
  return [
    ...(identity === undefined ? [] : [['identity.secretFile', identity.secretFile] as const]),
    ...admin.auth.map(
      ({ passwordFile }, index) => [`admin.auth[${index}].passwordFile`, passwordFile] as const,
    ),
    ...(admin.tls === undefined ? [] : [['admin.tls.keyFile', admin.tls.keyFile] as const]),
    ...certificates.map(({ keyFile }, index) => [`tunnel.certificates[${index}].keyFile`, keyFile] as const),
  ];
}

/** A file with the path of its key, or of the map around its keys. */
type NamedFile = { readonly path: string } & ({ readonly secretFile: string } | KeyPairFiles);

interface Fault {
  readonly path: string;
  readonly text: string;
  readonly isUnread: boolean;
}

function namedFiles({ admin, identity, tunnel }: Config): NamedFile[] {
  const certificates = tunnel?.certificates ?? [];
  return [
    ...(identity === undefined ? [] : [{ path: 'identity.secretFile', secretFile: identity.secretFile }]),
    ...(admin.tls === undefined ? [] : [{ path: 'admin.tls', ...admin.tls }]),
    ...certificates.map((pair, index) => ({ path: `tunnel.certificates[${index}]`, ...pair })),
  ];
}

/** Independent of its index in a list. */
function nameOf({ path, ...files }: NamedFile): string {
  return `${path.replace(/\[\d+\]$/, '')} ${JSON.stringify(files)}`;
}

async function judgeSecrets(
  { path, secretFile }: Extract<NamedFile, { secretFile: string }>,
  folder: string,
): Promise<Fault[]> {
  const secrets = resolve(folder, secretFile);
  const read = await readSecretFile(secrets);
  return read.ok ? [] : [{ path, text: `${secrets}: ${read.fault}`, isUnread: read.isUnread === true }];
}

async function judgePair(
  { path, certFile, keyFile }: Extract<NamedFile, KeyPairFiles>,
  folder: string,
): Promise<Fault[]> {
  const files = { certFile: resolve(folder, certFile), keyFile: resolve(folder, keyFile) };
  const faults = await judgeKeyPair(files);
  return faults.map(({ key, text, isUnread }) => ({ path: `${path}.${key}`, text, isUnread }));
}
