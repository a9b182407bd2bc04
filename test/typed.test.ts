// What the documents tell people to type works as it stands: the nine steps of docs/quickstart.md with the output that
// they show, and the two commands and the six-line file of README.md. On a host of its own (netns.ts), since the ports
// are those of the text.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { textLine } from '../src/cli/log-text.ts';
import { logLines } from '../testbed/log-lines.ts';
import { missingNetns, type Netns, netns } from '../testbed/netns.ts';
import { missingPrograms } from '../testbed/packages.ts';
import { spawnGroup } from '../testbed/process-group.ts';
import { run } from '../testbed/run.ts';
import { causewayBin } from '../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../testbed/temp-dir.ts';

const ROOT = resolve(import.meta.dirname, '..');
const skip = missingPrograms('bash', 'curl', 'openssl') || missingNetns();
const NPM_MS = 120_000;

/** A block to type, and what it prints where the document shows it. */
interface Step {
  readonly commands: string;
  readonly output: string | undefined;
}

test('docs/quickstart.md: its steps print what it shows', { skip, timeout: 120_000 }, async () => {
  const text = read('docs/quickstart.md');
  const steps = stepsOf(text);
  assert.equal(steps[0].commands, 'npm ci\n');
  await using dir = await checkout();
  await using host = await netns();
  await using shell = await openShell(dir, host);
  const isServe = ({ commands }: Step) => commands.startsWith('bin/causeway run ');
  const serve = steps.findIndex(isServe);
  for (const step of steps.slice(1, serve)) await check(shell, step);

  await using gateway = await host.start({
    command: join(dir.path, 'bin/causeway'),
    args: steps[serve].commands.trim().split(' ').slice(1),
    cwd: dir.path,
    ready: { log: /"msg":"ready"/ },
    stopSignal: 'SIGINT',
  });
  const { lines, line } = logLines(gateway);
  const count = (what: RegExp) => lines().filter(({ msg }) => what.test(msg)).length;
  let connections = 0;
  let edits = 0;
  for (const step of steps.slice(serve + 1, -1)) {
    // The text says to wait a second; a busy machine may need two.
    const [edit, rest] = step.commands.split('sleep 1\n');
    if (rest !== undefined) {
      await shell.type(edit);
      edits++;
      await line(() => count(/^(applied|file refused;.*)$/) === edits);
    }
    await check(shell, { ...step, commands: rest ?? edit });
    connections += step.commands.match(/^curl .*https:/gm)?.length ?? 0;
    // A connection is counted when it has ended, which may be after curl has.
    await line(() => count(/^connection$/) === connections);
  }
  assert.deepEqual(await gateway.stop(), { code: 0, signal: null });
  const logged = gateway
    .log()
    .split('\n')
    .filter(one => one.startsWith('{'))
    .map(one => textLine(one, false));
  assert.deepEqual(logged.join('').split('\n').filter(Boolean).map(usual).toSorted(), shownLog(text));

  await check(shell, steps.at(-1) as Step);
  assert.equal(await shell.type('ls'), 'bin\n', 'nothing is left');
});

test('README.md: the six-line file is served, and its commands work on it', {
  skip: missingNetns(),
  timeout: 60_000,
}, async () => {
  const text = read('README.md');
  const [file] = [...text.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, yaml]) => yaml);
  assert.equal(file.trim().split('\n').length, 6);
  const commands = text.match(/^bin\/causeway (?:check|explain|run)\b[^#\n]*/gm) ?? [];
  assert.deepEqual(
    commands.map(command => command.split(/\s+/)[1]),
    ['check', 'explain', 'run'],
  );
  await using dir = await checkout();
  await writeFile(dir.file('causeway.yaml'), file);
  await using host = await netns();
  for (const command of commands.slice(0, -1)) {
    const { code, stdout, stderr } = await host.run('sh', ['-c', command], { cwd: dir.path });
    assert.equal(code, 0, `${command}\n${stdout}${stderr}`);
  }
  await using gateway = await host.start({
    command: 'sh',
    args: ['-c', `exec ${commands.at(-1)}`],
    cwd: dir.path,
    ready: { log: /"msg":"ready"/ },
  });
  assert.deepEqual(logLines(gateway).lines()[0].listen, ['[::]:6443']);
});

test('README.md: the two commands work', { skip: missingPrograms('npm'), timeout: 2 * NPM_MS }, async () => {
  const commands = [...read('README.md').matchAll(/^npm (run demo|test) +#/gm)].map(([, command]) => command);
  assert.deepEqual(commands, ['run demo', 'test']);
  await using dir = await tempDir();
  const npm = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await run('npm', ['--prefix', ROOT, ...args], {
      cwd: dir.path,
      // It would keep what it compiled in the directory for temporary files.
      env: { NODE_DISABLE_COMPILE_CACHE: '1' },
      timeoutMs: NPM_MS,
    });
    assert.equal(code, 0, `${stdout}${stderr}`);
    return stdout.toString();
  };
  const shown = await npm('run', 'demo', '--', '--once');
  const claimed = read('README.md').match(/^✓ .*$/gm) ?? [];
  const title = (line: string) => line.slice(0, line.indexOf('  '));
  const proofs = shown.split('\n').filter(line => line.startsWith('✓ '));
  assert.deepEqual(new Set(claimed.map(title)).difference(new Set(proofs.map(title))), new Set());
  assert.match(await npm('test', '--', 'src/text'), /^\d+ passed, 0 failed$/m);
});

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

function stepsOf(markdown: string): Step[] {
  return [...markdown.matchAll(/^```sh\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?/gms)].map(
    ([, commands, output]) => ({ commands, output }),
  );
}

/** The lines of the gateway's own terminal, sorted: who ended first is not the point. */
function shownLog(markdown: string): string[] {
  const blocks = [...markdown.matchAll(/^```\n(.*?)^```$/gms)].map(([, block]) => block);
  const shown = blocks.filter(block => /^\d\d:\d\d:/.test(block));
  return shown.join('').split('\n').filter(Boolean).map(usual).toSorted();
}

/** Without what is different on every machine, and at every time. */
function usual(line: string): string {
  return line
    .replace(/^\d\d:\d\d:\d\d\.\d{3}/, 'TIME')
    .replace(/(127\.0\.0\.1):\d+ →/, '$1:PORT →')
    .replace(/in \d.* ms$/, 'in BYTES out BYTES MS')
    .replace(/engine=\w+ workers=\d+/, 'engine=E workers=N')
    .replace(/^(causeway_bytes_total.*) \d+$/, '$1 BYTES')
    .replace(/^curl: \(35\) .*(tlsv1 unrecognized name)$/, 'curl: (35) $1');
}

/** As a checkout looks to somebody who types `bin/causeway`, without anything that a mistake could harm. */
async function checkout(): Promise<TempDir> {
  const dir = await tempDir();
  await mkdir(dir.file('bin'));
  await symlink(causewayBin, dir.file('bin/causeway'));
  return dir;
}

async function check(shell: Shell, { commands, output }: Step): Promise<void> {
  const printed = await shell.type(commands);
  const lines = (text: string) => text.split('\n').map(usual);
  assert.deepEqual(lines(printed), lines(output ?? ''), commands);
}

interface Shell extends AsyncDisposable {
  /** Answers what it printed. */
  type(commands: string): Promise<string>;
}

/** One shell for all steps: some start jobs, and the last one ends them. */
async function openShell(dir: TempDir, host: Netns): Promise<Shell> {
  // On a terminal curl shows no progress where it prints what it got.
  await using home = new AsyncDisposableStack();
  const curlHome = home.use(await tempDir());
  await writeFile(curlHome.file('.curlrc'), 'silent\nshow-error\n');
  let printed = '';
  let heard = () => {};
  const env = { CURL_HOME: curlHome.path };
  const group = await spawnGroup({ command: 'bash', cwd: dir.path, env, netns: host }, chunk => {
    printed += chunk;
    heard();
  });
  const ended = group.ended.then(() => 'ended');
  const owned = home.move();
  return {
    async type(commands) {
      printed = '';
      group.child.stdin.write(`{\n${commands}\n} 2>&1\necho; echo typed\n`);
      while (!printed.endsWith('\ntyped\n')) {
        const more = new Promise<string>(done => (heard = () => done('more')));
        assert.equal(await Promise.race([more, ended]), 'more', `the shell ended:\n${printed}`);
      }
      return printed.slice(0, -'\ntyped\n'.length);
    },
    async [Symbol.asyncDispose]() {
      group.kill();
      await group.ended;
      await owned.disposeAsync();
    },
  };
}
