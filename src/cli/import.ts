// `causeway import`: reads the configuration of another proxy and prints causeway.yaml. Only that goes to stdout; findings
// go to stderr. Opens the files; src/import does the rest.

import { closeSync, globSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { finishImport } from '../import/finish-import.ts';
import { importHaproxy } from '../import/haproxy/import-haproxy.ts';
import { type ImportResult, placeText, type SourceFile, type Surroundings } from '../import/imported.ts';
import { importNginx } from '../import/nginx/import-nginx.ts';
import { importTraefik } from '../import/traefik/import-traefik.ts';
import { nearest } from '../text/nearest.ts';
import { printable } from '../text/printable.ts';
import { type Command, parse, UsageError } from './command.ts';
import { countText } from './count-text.ts';
import { painter, printError } from './terminal.ts';

const UNREADABLE = 1;
/** Of one file. Configurations have kilobytes; something larger was named by mistake. */
const MAX_BYTES = 64 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;

const help = `causeway import haproxy|nginx|traefik FILE…: Turn the configuration of another proxy into causeway.yaml

  causeway import haproxy /etc/haproxy/haproxy.cfg > causeway.yaml
  causeway import nginx /etc/nginx/nginx.conf > causeway.yaml
  causeway import traefik dynamic.yaml ingress-routes.yaml > causeway.yaml

  haproxy FILE…        One or several files or directories (their *.cfg in order), as haproxy -f
                       takes them: SNI, Host, PROXY header ids, maps, ACLs, servers, checks
  nginx FILE…          stream { map $ssl_preread_server_name …; upstream …; server … }
  traefik FILE…        The file provider's TCP and HTTP routers, or IngressRouteTCP objects

Maps, lists and includes that the configuration names are read too: as they are named, else from
the directory of the configuration. "$VARIABLES" of HAProxy come from the environment.

Prints causeway.yaml on stdout; causeway check accepts it. Findings go to stderr:

  FILE:LINE:COLUMN: warning: …             odd there, or different here, and what to do
  FILE:LINE:COLUMN: not carried over: …    not in causeway.yaml

Host names are compared without regard to case, a final dot or the port of a Host header.

Exit codes: 0; 1 a file cannot be read; 64 wrong usage.`;

export const importCommand: Command = { help, run };

type Import = (files: readonly SourceFile[], surroundings: Surroundings) => ImportResult;

const programs = {
  haproxy: { import: importHaproxy, isPart: (name: string) => name.endsWith('.cfg') },
  nginx: { import: importNginx, isPart: (name: string) => name.endsWith('.conf') },
  traefik: { import: importTraefik, isPart: (name: string) => /\.ya?ml$/.test(name) },
} as const satisfies Record<string, { import: Import; isPart(name: string): boolean }>;
type ProgramName = keyof typeof programs;

async function run(args: readonly string[]): Promise<number> {
  const { positionals } = parse('import', args, {}, true);
  const [given, ...paths] = positionals;
  const name = programOf(given);
  if (paths.length === 0) throw new UsageError(`Name a file: causeway import ${name} FILE`);
  const program = programs[name];
  const files: SourceFile[] = [];
  for (const path of paths) {
    const read = readSources(path, program.isPart);
    if (typeof read === 'string') {
      printError(`${path}: ${read}`);
      return UNREADABLE;
    }
    files.push(...read);
  }
  const result = program.import(files, surroundingsOf(paths));
  if (!result.ok) {
    printError(...result.faults.map(({ place, text }) => `${placeText(place)}: ${text}`));
    return UNREADABLE;
  }
  const { yaml, findings, counts } = finishImport(result.imported, name);
  const paint = painter(process.stderr);
  for (const { place, kind, text } of findings) {
    const mark = paint(kind === 'warning' ? '33' : '36', `${kind}:`);
    process.stderr.write(`${printable(placeText(place))}: ${mark} ${printable(text)}\n`);
  }
  const left = findings.filter(({ kind }) => kind === 'not carried over').length;
  const { clusters, routes } = counts;
  const summary = `${countText(clusters, 'cluster')}, ${countText(routes, 'route')}; ${countText(findings.length - left, 'warning')}, ${left} not carried over`;
  printError(summary);
  process.stdout.write(yaml);
  return 0;
}

function programOf(given: string | undefined): ProgramName {
  const known = Object.keys(programs) as ProgramName[];
  const program = known.find(each => each === given);
  if (program !== undefined) return program;
  const see = "See 'causeway help import'";
  if (given === undefined) throw new UsageError(`Name a program: ${known.join(', ')}. ${see}`);
  const near = nearest(given, known);
  throw new UsageError(
    `Unknown program '${given}'${near === undefined ? `: ${known.join(', ')}` : `. Did you mean '${near}'?`} ${see}`,
  );
}

/** The file, or the files of a directory in order; a string says why not. */
function readSources(path: string, isPart: (name: string) => boolean): readonly SourceFile[] | string {
  try {
    if (!statSync(path).isDirectory()) return [{ name: path, text: readText(path) }];
    const names = readdirSync(path)
      .filter(name => isPart(name) && !name.startsWith('.'))
      .toSorted();
    if (names.length === 0) return 'this directory has no configuration files';
    return names.map(name => ({ name: join(path, name), text: readText(join(path, name)) }));
  } catch (error) {
    return reasonOf(error);
  }
}

/** In pieces: a pipe or a device does not tell its size. */
function readText(path: string): string {
  const file = openSync(path, 'r');
  try {
    const chunks: Buffer[] = [];
    for (let length = 0; ; ) {
      const chunk = Buffer.alloc(CHUNK_BYTES);
      const count = readSync(file, chunk, 0, chunk.length, null);
      if (count === 0)
        return Buffer.concat(chunks)
          .toString('utf8')
          .replace(/^\ufeff/, '');
      length += count;
      if (length > MAX_BYTES) throw new Error(`it is larger than ${MAX_BYTES / 1024 / 1024} MiB`);
      chunks.push(chunk.subarray(0, count));
    }
  } finally {
    closeSync(file);
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EACCES') return 'this user may not read it';
  return `cannot be read: ${code ?? message}`;
}

/** As the program would find them; a copy of a configuration has them beside it. */
function surroundingsOf(paths: readonly string[]): Surroundings {
  const folders = [...new Set(paths.map(path => dirname(path)))];
  return {
    env: process.env,
    readFile(path) {
      for (const candidate of [
        path,
        ...folders.flatMap(folder => [join(folder, path), join(folder, basename(path))]),
      ]) {
        try {
          return readText(candidate);
        } catch {
          // The next one.
        }
      }
      return undefined;
    },
    listFiles: pattern =>
      [pattern, ...folders.map(folder => join(folder, pattern))]
        .map(one => globSync(one).toSorted())
        .find(found => found.length > 0) ?? [],
  };
}
