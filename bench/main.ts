// `npm run bench`: Causeway, HAProxy, nginx and a direct connection under the same load, by scenario. Progress goes to
// stderr, the table to stdout, JSON and SVG to files.

import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { installPackages, missingPackages } from '../testbed/packages.ts';
import { type Bed, openBed } from './bed.ts';
import { describeMachine, othersBusy } from './machine.ts';
import { OptionError, type Options, readOptions, repeatCommand, usage } from './options.ts';
import { causeway } from './peers/causeway.ts';
import { direct } from './peers/direct.ts';
import { haproxy, haproxyDefault, haproxyLargeBuffers } from './peers/haproxy.ts';
import { nginx } from './peers/nginx.ts';
import { nodeHttp } from './peers/node-http.ts';
import type { Peer } from './peers/peer.ts';
import { renderMarkdown, withResults } from './report/markdown.ts';
import { Recording, type Report, type ScenarioReport } from './report/report.ts';
import { renderSvg } from './report/svg.ts';
import { renderGoals, renderHeader, renderScenario } from './report/table.ts';
import { addHost } from './scenarios/add-host.ts';
import { bulk } from './scenarios/bulk.ts';
import { dnsQueries } from './scenarios/dns-queries.ts';
import { fairness } from './scenarios/fairness.ts';
import { footprint } from './scenarios/footprint.ts';
import { httpRequests } from './scenarios/http-requests.ts';
import { idleTunnels } from './scenarios/idle-tunnels.ts';
import { largeFile } from './scenarios/large-file.ts';
import { manyHosts } from './scenarios/many-hosts.ts';
import { newConnections } from './scenarios/new-connections.ts';
import type { Scenario } from './scenarios/scenario.ts';
import { smallMessages } from './scenarios/small-messages.ts';
import { userClusterApps } from './scenarios/user-cluster-apps.ts';
import { workers } from './scenarios/workers.ts';

const ROOT = resolve(import.meta.dirname, '..');
const WRONG_USAGE = 64;
const INTERRUPTED = 130;

const scenarios = [
  newConnections,
  bulk,
  smallMessages,
  idleTunnels,
  manyHosts,
  addHost,
  fairness,
  workers,
  httpRequests,
  footprint,
  userClusterApps,
  dnsQueries,
  largeFile,
] as const;

/** Debian packages by peer. */
const packagesOf: Readonly<Record<string, readonly string[]>> = {
  haproxy: ['haproxy'],
  'haproxy-256k': ['haproxy'],
  nginx: ['nginx', 'libnginx-mod-stream'],
};

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof OptionError)) throw error;
  process.stderr.write(`${error.message}\n\n${usage}\n`);
  process.exitCode = WRONG_USAGE;
}

async function main(args: readonly string[]): Promise<number> {
  const peers = (engine: string): Peer[] => [
    causeway(engine),
    haproxy(haproxyDefault),
    haproxy(haproxyLargeBuffers),
    nginx,
    nodeHttp,
    direct,
  ];
  const known = { scenarios: scenarios.map(({ id }) => id), peers: peers('').map(({ id }) => id) };
  const options = readOptions(args, known);
  if (options.help) {
    process.stdout.write(`${usage}\n`);
    return 0;
  }
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  installMissing(options);
  await using bed = await openBed();
  const wanted = peers(options.engine).filter(({ id }) => options.peers.includes(id));
  const about = {
    date: new Date().toISOString(),
    command: repeatCommand(args),
    rounds: options.rounds,
    seconds: options.seconds,
    pinning: bed.pinning.text,
    machine: await describeMachine(await engineOf(bed, wanted)),
  };
  print(renderHeader(about));
  const reports: ScenarioReport[] = [];
  for (const scenario of scenarios) {
    if (!options.scenarios.includes(scenario.id)) continue;
    const report = await measure(scenario, bed, wanted, options, stop.signal);
    if (stop.signal.aborted) return INTERRUPTED;
    print(renderScenario(report));
    reports.push(report);
  }
  print(renderGoals(reports));
  const report: Report = { ...about, scenarios: reports };
  await keep(report, options);
  return reports.some(({ failures }) => failures.length > 0) ? 1 : 0;
}

function installMissing({ peers }: Options): void {
  const needed = new Set(peers.flatMap(peer => packagesOf[peer] ?? []));
  const missing = missingPackages().filter(name => needed.has(name));
  if (missing.length > 0) say(`Debian packages: installing ${missing.join(' ')}`);
  installPackages(missing);
}

/** The engine that `auto` chose. Also fails early if it cannot start. */
async function engineOf(bed: Bed, peers: readonly Peer[]): Promise<string> {
  const ours = peers.find(({ id }) => id === 'causeway');
  const { ports, connections } = bed;
  const routes = { hosts: 1, added: [], ports };
  const setup = { routes, workers: 1, cores: bed.pinning.proxy, connections };
  await using running = await ours?.start(setup);
  return running?.engine ?? 'none';
}

async function measure(
  scenario: Scenario,
  bed: Bed,
  wanted: readonly Peer[],
  { rounds, seconds }: Options,
  signal: AbortSignal,
): Promise<ScenarioReport> {
  const started = performance.now();
  const progress = (text: string) =>
    say(
      `(${scenario.id}) ${scenario.title}: ${text} (${Math.round((performance.now() - started) / 1000)} s)`,
    );
  const peers = wanted.filter(({ id }) => scenario.peers.includes(id));
  const columns = scenario.columns ?? peers.map(({ id, label }) => ({ id, label }));
  const recording = new Recording();
  const others = await othersBusy();
  progress(`starting ${peers.map(({ label }) => label).join('; ')}`);
  const fail = (column: string, text: string) => {
    recording.failures.push({ column, text });
    progress(`errors with ${column}: ${text}`);
  };
  const record = (column: string, measure: string, value: number) => recording.record(column, measure, value);
  const busy = (column: string, share: number) => recording.busy(column, share);
  try {
    await scenario.run({ bed, peers, rounds, seconds, signal, say: progress, record, busy, fail });
    progress('done');
  } catch (error) {
    // Keep the results of the other scenarios.
    if (!signal.aborted) fail('the scenario itself', (error as Error).message);
  }
  return recording.report(scenario, columns, others);
}

async function keep(report: Report, { out, docs }: Options): Promise<void> {
  const directory = resolve(ROOT, out);
  const picture = renderSvg(report);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'results.json'), `${JSON.stringify(report, null, 2)}\n`);
  await writeFile(join(directory, 'results.svg'), picture);
  say(`written: ${join(out, 'results.json')}, ${join(out, 'results.svg')}`);
  if (!docs) return;
  const document = join(ROOT, 'docs/performance.md');
  await mkdir(join(ROOT, 'docs'), { recursive: true });
  const before = await readFile(document, 'utf8').catch(() => undefined);
  await writeFile(document, withResults(before, renderMarkdown(report, 'performance.svg')));
  await writeFile(join(ROOT, 'docs/performance.svg'), picture);
  say('written: docs/performance.md, docs/performance.svg');
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}
