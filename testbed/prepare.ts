// Builds programs of the test bed before the tests, so that tests find them in the cache and need not count minutes
// of compiling into their time limits: all of them (`npm run testbed`), or those that the chosen test files use
// (`npm test`).

import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { GO_PROGRAMS, goBuild, missingGoPrograms } from './go-build.ts';
import { haproxyBuild } from './haproxy-build.ts';
import { javaBuild } from './java-client.ts';
import { missingPrograms } from './packages.ts';

/** What the linker of the API server takes, and its compilers beside it. */
const MEMORY_PER_BUILD = 6 * 1024 ** 3;
/** The Go compiler uses all cores as long as there are packages to compile, but one for the last of them. */
const CORES_PER_BUILD = 2;

interface Build {
  /** How it is named in the code that needs it. */
  readonly call: string;
  /** Why it cannot be built here. */
  readonly missing: () => string | false;
  readonly build: () => Promise<string>;
}

const BUILDS: readonly Build[] = [
  ...GO_PROGRAMS.map(name => ({
    call: `goBuild('${name}')`,
    missing: () => missingGoPrograms(name),
    build: () => goBuild(name),
  })),
  { call: 'javaBuild()', missing: () => missingPrograms('javac'), build: javaBuild },
  {
    call: 'haproxyBuild()',
    missing: () => missingPrograms('debootstrap', 'dpkg-deb'),
    build: haproxyBuild,
  },
];

/** Builds what these test files use; without any, everything. What cannot be built here is left out: tests skip it. */
export async function prepare(testFiles?: readonly string[]): Promise<void> {
  const wanted = testFiles === undefined ? BUILDS : buildsFor(testFiles);
  const waiting = wanted.filter(({ missing }) => missing() === false).values();
  const workers = Math.min(availableParallelism() / CORES_PER_BUILD, totalmem() / MEMORY_PER_BUILD);
  async function work(): Promise<void> {
    for (const { build } of waiting) await build();
  }
  await Promise.all(Array.from({ length: Math.max(1, Math.floor(workers)) }, work));
}

/** The calls of builders in what test files import, directly or not: in the starters, that is. */
export function neededBuilds(testFiles: readonly string[]): string[] {
  return buildsFor(testFiles).map(({ call }) => call);
}

function buildsFor(testFiles: readonly string[]): readonly Build[] {
  const roots = new Set(testFiles.map(file => pathToFileURL(file).href));
  const sources = [...textsOf(roots)].filter(([url]) => !roots.has(url)).map(([, text]) => text);
  return BUILDS.filter(({ call }) => sources.some(text => text.includes(call)));
}

/** The text of files and of everything of ours that they import. This file names all builders and needs none. */
function textsOf(urls: Iterable<string>): Map<string, string> {
  const texts = new Map<string, string>();
  const waiting = [...urls];
  for (const url of waiting) {
    if (texts.has(url) || url === import.meta.url) continue;
    const text = readFileSync(fileURLToPath(url), 'utf8');
    texts.set(url, text);
    for (const [, specifier] of text.matchAll(/^(?:import(?! type)|export) [^;]*?from '(\.[^']*\.ts)';$/gms))
      waiting.push(new URL(specifier, url).href);
  }
  return texts;
}
