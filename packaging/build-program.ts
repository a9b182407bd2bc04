// Compiles the program for packages: esbuild joins our modules with what they use of the libraries, so that a package
// needs neither TypeScript nor most of node_modules, and starts faster. Entry points of threads keep their paths; all
// other code is in files directly in the folder, which src/program-file.ts relies on.

import { globSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Metafile } from 'esbuild';
import { LIBRARIES } from '../src/admin/dashboard.ts';
import { ROOT } from './source-tree.ts';
import { tool } from './tool.ts';

/** Parts of the test suite are threads too. */
const THREADS = {
  pattern: 'src/**/{worker,*-worker}.ts',
  exclude: ['**/contract/**', '**/*.test-worker.ts'],
};
/** Has native code for each platform, which cannot be joined. */
const NOT_BUNDLED = ['koffi'];
/** What CommonJS libraries call; ES modules have none. */
const REQUIRE =
  "import { createRequire as createRequireOf } from 'node:module';\nconst require = createRequireOf(import.meta.url);";

/** Empties and fills the folder. */
export async function buildProgram(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  const threads = globSync(THREADS.pattern, { cwd: ROOT, exclude: THREADS.exclude }).toSorted();
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: ['src/main.ts', 'src/wire/library.ts', ...threads],
    outbase: 'src',
    outdir: folder,
    bundle: true,
    splitting: true,
    chunkNames: '[name]-[hash]',
    format: 'esm',
    platform: 'node',
    target: 'node26',
    external: NOT_BUNDLED,
    banner: { js: REQUIRE },
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
  });
  await Promise.all([buildDashboard(join(folder, 'dashboard')), buildTypes(folder)]);
  await writeFile(join(folder, 'LICENSES.txt'), await licensesOf(packagesIn(metafile)));
}

async function buildDashboard(folder: string): Promise<void> {
  await typescript('dashboard/tsconfig.build.json', folder);
  for (const [name, url] of Object.entries(LIBRARIES))
    await copyFile(fileURLToPath(url()), join(folder, name));
}

/** Of the library `causeway/wire`, which alone is for import. */
async function buildTypes(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await typescript('tsconfig.build.json', folder);
}

async function typescript(project: string, folder: string): Promise<void> {
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
  await tool(process.execPath, [compiler, '-p', project, '--outDir', folder], { cwd: ROOT });
}

/** Names of the packages whose code is in the program, and of those that the dashboard loads. */
function packagesIn({ outputs }: Metafile): string[] {
  const names = new Set(['preact', 'uplot']);
  for (const { inputs } of Object.values(outputs)) {
    for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
      const inside = path.split('node_modules/').at(-1) as string;
      if (inside === path || bytesInOutput === 0) continue;
      names.add(/^(?:@[^/]+\/)?[^/]+/.exec(inside)?.[0] as string);
    }
  }
  return [...names].toSorted();
}

/** What the licences of the joined packages ask for: their texts go where the code goes. */
async function licensesOf(names: readonly string[]): Promise<string> {
  const texts = await Promise.all(names.map(name => licenseOf(name)));
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

async function licenseOf(name: string): Promise<string> {
  const folder = join(ROOT, 'node_modules', name);
  const { version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const files = (await readdir(folder)).filter(file => /^(licen[cs]e|notice|copying)/i.test(file)).toSorted();
  const texts = await Promise.all(files.map(file => readFile(join(folder, file), 'utf8')));
  return [`${name} ${version}, ${license}`, ...texts.map(text => text.trim())].join('\n\n').concat('\n');
}
