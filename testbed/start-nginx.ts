// nginx in a test: `await using proxy = await startNginx({ stream: '...' })`. Its logs, process
// id and temporary files are in a directory of the test; it neither reads nor touches the machine's own.

import { access, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Netns } from './netns.ts';
import { findProgram } from './packages.ts';
import { type Program, startProgram } from './program.ts';
import { run } from './run.ts';
import { tempDir } from './temp-dir.ts';

export interface NginxOptions {
  /** The content of `http { }`. */
  readonly http?: string;
  /** The content of `stream { }`. Loads the module if it is not built in. */
  readonly stream?: string;
  readonly netns?: Netns;
}

const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];

/** Starts nginx, and resolves when its worker runs, which is after it has bound everything. */
export async function startNginx(options: NginxOptions): Promise<Program> {
  const { netns } = options;
  const command = findProgram('nginx') ?? 'nginx';
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const file = dir.file('nginx.conf');
  await writeFile(file, await configuration(command, dir.path, options));

  // -e: before it has read the file it would open the machine's own log.
  const args = ['-p', dir.path, '-e', 'stderr', '-c', file];
  // The check binds ports too.
  const check = await run(command, ['-t', ...args], { netns });
  if (check.code !== 0) throw new Error(`nginx does not accept its configuration:\n${check.stderr}`);

  const ready = { log: /start worker process \d+/ };
  const program = stack.use(
    await startProgram({ command, args, cwd: dir.path, netns, ready, stopSignal: 'SIGTERM' }),
  );
  const owned = stack.move();
  return { ...program, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function configuration(command: string, dir: string, { http, stream }: NginxOptions): Promise<string> {
  const lines = ['daemon off;', 'worker_processes 1;', `pid ${dir}/nginx.pid;`, 'error_log stderr info;'];
  // Otherwise workers would run as a user who may not read the directory.
  if (process.getuid?.() === 0) lines.push('user root;');
  const module = stream === undefined ? undefined : await streamModule(command);
  if (module !== undefined) lines.unshift(`load_module ${module};`);
  lines.push('events { }');
  if (stream !== undefined) lines.push(`stream {\n${stream}\n}`);
  if (http !== undefined) {
    const paths = TEMPORARY.map(kind => `${kind}_temp_path ${dir}/${kind};`);
    lines.push('http {', 'access_log off;', ...paths, http, '}');
  }
  return `${lines.join('\n')}\n`;
}

/** The dynamic module's path, from nginx's compile options; undefined if it is built in. */
async function streamModule(command: string): Promise<string | undefined> {
  const { stderr } = await run(command, ['-V']);
  if (/--with-stream(\s|$)/.test(stderr)) return undefined;
  const path = join(
    /--modules-path=(\S+)/.exec(stderr)?.[1] ?? '/usr/lib/nginx/modules',
    'ngx_stream_module.so',
  );
  await access(path);
  return path;
}
