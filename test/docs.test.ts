// The documents agree with the code and with each other: links lead somewhere, files to copy are sound, and what is a
// closed set in the code is the same set on paper.

import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { type AgentFlags, readAgentOptions } from '../src/agent/agent-options.ts';
import { agentCommand } from '../src/cli/agent.ts';
import { findingCodes } from '../src/cluster/finding.ts';
import { formatMistake, readConfig } from '../src/config/read-config.ts';
import { doctorCodes } from '../src/doctor/check.ts';
import { closeReasons } from '../src/gateway/close-reason.ts';

const ROOT = resolve(import.meta.dirname, '..');
const documents = globSync(['*.md', 'docs/**/*.md'], { cwd: ROOT }).toSorted();

test('README.md and docs/ are what is looked at', () => {
  for (const path of ['README.md', 'docs/configuration.md', 'docs/close-reasons.md', 'docs/operations.md'])
    assert.ok(documents.includes(path), path);
});

for (const path of documents) {
  test(`${path}: its links lead somewhere`, () => {
    const broken = linksOf(read(path)).filter(link => !leadsSomewhere(path, link));
    assert.deepEqual(broken, []);
  });

  const files = configsOf(read(path));
  if (files.length === 0) continue;
  test(`${path}: its files for causeway are served`, () => {
    for (const text of files) {
      const result = readConfig(text, path);
      const mistakes = result.ok ? [] : result.mistakes.map(mistake => formatMistake(path, mistake));
      assert.deepEqual(mistakes, [], text);
    }
  });
}

test('the documents have files to copy', () => {
  assert.equal(configsOf(read('README.md')).length, 1);
  for (const path of ['docs/quickstart.md', 'docs/configuration.md', 'docs/agent/choose.md'])
    assert.ok(configsOf(read(path)).length >= 2, path);
});

test('README.md links to every document', () => {
  const linked = new Set(linksOf(read('README.md')).map(link => link.split('#')[0]));
  assert.deepEqual(
    documents.filter(path => path !== 'README.md' && !linked.has(path)),
    [],
  );
});

test('docs/close-reasons.md has a row for each close reason, and no other', () => {
  const rows = [...read('docs/close-reasons.md').matchAll(/^\| `([a-z-]+)` \|/gm)].map(match => match[1]);
  assert.deepEqual(rows.toSorted(), closeReasons.toSorted());
});

test('docs/operations.md has a row for each finding, and no other', () => {
  const rows = [...read('docs/operations.md').matchAll(/^\| `([A-Z]\w+)` \|/gm)].map(match => match[1]);
  assert.deepEqual(rows.toSorted(), findingCodes.toSorted());
});

test('docs/troubleshoot.md has a row for each code of doctor, and names no other', () => {
  const text = read('docs/troubleshoot.md');
  const [, tables] = text.split(/^## Codes$/m);
  const rows = [...tables.matchAll(/^\| (`[A-Z]\w+`(?:, `[A-Z]\w+`)*) \|/gm)].flatMap(match =>
    codesOf(match[1]),
  );
  assert.deepEqual(rows.toSorted(), doctorCodes.toSorted());
  const known = new Set<string>([...doctorCodes, ...findingCodes]);
  const [symptoms] = text.split(/^## Without doctor$/m);
  const named = [...symptoms.matchAll(/^\|.*\|(.*)\|$/gm)].flatMap(match => codesOf(match[1]));
  assert.deepEqual(
    named.filter(code => /^[A-Z]\w+$/.test(code) && !known.has(code)),
    [],
  );
});

test('the metrics in the documents are those that the admin side has', () => {
  const source = read('src/admin/metrics.ts');
  const known = [...source.matchAll(/\bfamily\(\s*'(causeway_\w+)'/g)].map(match => match[1]);
  assert.ok(known.length > 10, `only ${known.length} metrics were found`);
  const named = (path: string) =>
    [...read(path).matchAll(/\bcauseway_[a-z_]*[a-z]/g)].map(([name]) =>
      name.replace(/_seconds_(bucket|sum|count)$/, '_seconds'),
    );
  for (const path of documents)
    assert.deepEqual(
      named(path).filter(name => !known.includes(name)),
      [],
      path,
    );
  const table = new Set(named('docs/operations.md'));
  assert.deepEqual(
    known.filter(name => !table.has(name)),
    [],
  );
});

test('docs/operations.md: log lines and reasons of readyz are those that the code has', () => {
  const source = globSync('src/{admin,agent,cli,controller,gateway}/**/*.ts', { cwd: ROOT })
    .map(read)
    .join('')
    // `'it\\'s'`, and what is said of a kind of thread.
    .replaceAll("\\'", "'")
    .replaceAll('${kind}', 'worker');
  const text = read('docs/operations.md');
  const log = tableBelow(text, '| `msg` | level |').flatMap(codesOf);
  const ready = tableBelow(text, '| reason | meaning |').flatMap(codesOf);
  assert.ok(log.length > 30 && ready.length >= 5, `${log.length} log lines, ${ready.length} reasons`);
  // A path and an address are not in the code.
  const parts = [...log, ...ready].map(one => one.replace(/'.*/, ''));
  assert.deepEqual(
    parts.filter(part => !source.includes(part)),
    [],
  );
});

test('ARCHITECTURE.md and CONTRIBUTING.md name files that are there', () => {
  const files = globSync('{src,dashboard,test,testbed,scripts}/**/*.{ts,mjs}', { cwd: ROOT });
  for (const path of ['ARCHITECTURE.md', 'CONTRIBUTING.md']) {
    const named = codesOf(read(path)).filter(code => /^[\w/.-]+\.(ts|mjs)$/.test(code));
    // What a file would be called.
    const missing = named.filter(
      name => !name.startsWith('x.') && !files.some(file => `/${file}`.endsWith(`/${name}`)),
    );
    assert.deepEqual(missing, [], path);
  }
});

test('docs/dependencies.md has a row for each dependency, and no other', () => {
  const { dependencies, devDependencies } = JSON.parse(read('package.json')) as Record<
    'dependencies' | 'devDependencies',
    Record<string, string>
  >;
  const [tables] = read('docs/dependencies.md').split(/^## Versions$/m);
  const rows = [...tables.matchAll(/^\| (`.*`) \|/gm)].flatMap(match => codesOf(match[1]));
  assert.deepEqual(rows.toSorted(), Object.keys({ ...dependencies, ...devDependencies }).toSorted());
});

test('docs/agent/ names every flag of causeway agent, and no other', () => {
  const known = new Set(flagsOf(agentCommand.help));
  const text = aboutTheAgent();
  const named = [...commandsOf(text).flat(), ...text.matchAll(/`(--[^`]*)`/g)].flatMap(one =>
    flagsOf(String(one)),
  );
  // The API server's.
  const others = new Set(['--endpoint-reconciler-type']);
  assert.deepEqual(new Set(named).difference(others), known);
});

test('docs/agent/: its commands and objects start an agent', () => {
  const commands = commandsOf(aboutTheAgent());
  assert.ok(commands.length >= 7, `only ${commands.length} commands`);
  for (const args of commands) {
    const result = readAgentOptions(agentFlags(args));
    assert.deepEqual(result.ok ? [] : result.mistakes, [], args.join(' '));
  }
});

function read(path: string): string {
  return readFileSync(resolve(ROOT, path), 'utf8');
}

function aboutTheAgent(): string {
  return documents
    .filter(path => path.startsWith('docs/agent/'))
    .map(read)
    .join('');
}

/** The first cells of the table with that head. */
function tableBelow(markdown: string, head: string): string[] {
  const [, after] = markdown.split(head, 2);
  const rows = after.slice(0, after.indexOf('\n\n')).split('\n').slice(2);
  return rows.map(row => row.split('|')[1]);
}

/** Links and images, those in code left out. */
function linksOf(markdown: string): string[] {
  const text = markdown.replace(/^```.*?^```$/gms, '').replace(/`[^`\n]*`/g, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(match => match[1]).filter(link => !/^https?:/.test(link));
}

function leadsSomewhere(from: string, link: string): boolean {
  const [path, fragment] = link.split('#', 2);
  const target = path === '' ? resolve(ROOT, from) : resolve(ROOT, dirname(from), path);
  if (!target.startsWith(`${ROOT}/`) || !existsSync(target)) return false;
  return fragment === undefined || anchorsOf(readFileSync(target, 'utf8')).includes(fragment);
}

/** As GitHub makes them of headings. */
function anchorsOf(markdown: string): string[] {
  const text = markdown.replace(/^```.*?^```$/gms, '');
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/** Whole files: yaml blocks that say where to listen, and what the shell blocks write to *.yaml, after each write. */
function configsOf(markdown: string): string[] {
  const configs: string[] = [];
  const written = new Map<string, string>();
  for (const [, language, block] of markdown.matchAll(/^```(\w+)\n(.*?)^```$/gms)) {
    if (language === 'yaml' && /^listen:/m.test(block)) configs.push(block);
    if (language !== 'sh') continue;
    for (const [, how, path, text] of block.matchAll(/^cat (>>?) (\S+\.yaml) <<'EOF'\n(.*?)^EOF$/gms)) {
      written.set(path, how === '>' ? text : `${written.get(path) ?? ''}${text}`);
      configs.push(written.get(path) ?? '');
    }
  }
  return configs;
}

function flagsOf(text: string): string[] {
  return text.match(/--[a-z][a-z-]*/g) ?? [];
}

/** The arguments of `causeway agent`, in shell blocks and in pod templates. */
function commandsOf(markdown: string): string[][] {
  const commands: string[][] = [];
  for (const [, language, block] of markdown.matchAll(/^```(\w+)\n(.*?)^```$/gms)) {
    if (language === 'sh') {
      const lines = block.replaceAll('\\\n', ' ').split('\n');
      for (const line of lines)
        if (line.startsWith('causeway agent ')) commands.push(line.split(/\s+/).slice(2));
    }
    if (language !== 'yaml') continue;
    for (const document of parseAllDocuments(block)) {
      assert.deepEqual(document.errors, []);
      for (const { args, env = [] } of document.toJS()?.spec?.template?.spec?.containers ?? []) {
        const fromEnvironment = env.map(({ name }: { name: string }) => asFlag(name));
        if (args[0] === 'agent') commands.push([...args.slice(1), ...fromEnvironment]);
      }
    }
  }
  return commands;
}

/** An address stands for what the pod's environment will say. */
function asFlag(variable: string): string {
  return `--${variable.replace('CAUSEWAY_AGENT_', '').toLowerCase().replaceAll('_', '-')}=192.0.2.1`;
}

function agentFlags(args: readonly string[]): AgentFlags {
  const flags: Record<string, string | boolean> = {};
  for (const [, name, value] of args.join(' ').matchAll(/--([a-z-]+)(?:[= ](?!--)(\S+))?/g)) {
    flags[name] = value?.replace('"$CLUSTER_ID"', 'some-id') ?? true;
  }
  return flags;
}

function codesOf(markdown: string): string[] {
  return [...markdown.matchAll(/`([^`]+)`/g)].map(match => match[1]);
}
