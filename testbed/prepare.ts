// Builds programs of the test bed before the tests, so that compiling does not count
// against their time limits: all programs (`npm run testbed`), or those that the chosen test files use
// (`npm test`).

import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { debianBuild, missingDebian } from './debian-build.ts';
import { GO_PROGRAMS, goBuild, missingGoPrograms } from './go-build.ts';
import { haproxyBuild } from './haproxy-build.ts';
import { javaBuild } from './java-client.ts';
import { missingPrograms } from './packages.ts';

/** Memory for the linker of the API server and the compilers beside it. */
const MEMORY_PER_BUILD = 6 * 1024 ** 3;
/** The Go compiler uses all cores while there are packages to compile, but only one for the last of them. */
const CORES_PER_BUILD = 2;

interface Build {
  /** The call in the code that needs it. */
  readonly call: string;
  /** Why it cannot be built here. */
  readonly missing: () => string | false;
  readonly build: () => Promise<unknown>;
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
  { call: 'debianBuild()', missing: missingDebian, build: debianBuild },
];

/** Builds what these test files use, or everything. What cannot be built here is left out; its tests are skipped. */
export async function prepare(testFiles?: readonly string[]): Promise<void> {
  const wanted = testFiles === undefined ? BUILDS : buildsFor(testFiles);
  const waiting = wanted.filter(({ missing }) => missing() === false).values();
  const workers = Math.min(availableParallelism() / CORES_PER_BUILD, totalmem() / MEMORY_PER_BUILD);
  async function work(): Promise<void> {
    for (const { build } of waiting) await build();
  }
  await Promise.all(Array.from({ length: Math.max(1, Math.floor(workers)) }, work));
}

/** Calls of builders in all files that the test files import: these are in the starters. */
export function neededBuilds(testFiles: readonly string[]): string[] {
  return buildsFor(testFiles).map(({ call }) => call);
}

function buildsFor(testFiles: readonly string[]): readonly Build[] {
  const roots = new Set(testFiles.map(file => pathToFileURL(file).href));
  const sources = [...textsOf(roots)].filter(([url]) => !roots.has(url)).map(([, text]) => text);
  return BUILDS.filter(({ call }) => sources.some(text => text.includes(call)));
}

/** The text of files and of all our files that they import, except this one, which names all builders. */
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
