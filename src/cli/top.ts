// `causeway top`: what a running gateway serves, live.

import { setTimeout as sleep } from 'node:timers/promises';
import { type AdminClient, AdminClientError } from './admin-client.ts';
import { adminClient, adminFlags, adminFlagsHelp, DEFAULT_ADMIN } from './admin-flags.ts';
import { clusterFlags, hasProblem, noSuchCluster, sortFlag } from './choose-clusters.ts';
import { type Command, parse } from './command.ts';
import { letReaderLeave, painter, printError, writeJson } from './terminal.ts';
import { type Sample, sortClusters, type TopSort, topFigures, topSorts } from './top-figures.ts';
import { topScreen, troublesOf } from './top-screen.ts';
import { watchTop } from './watch-top.ts';

const NOT_REACHABLE = 1;

const help = `causeway top: Watch what a running gateway serves

  --problems           Only clusters with problems: backends that are down, routes without a
                       backend, findings
  --cluster NAME       Only this cluster
  --sort KEY           Sort clusters by ${topSorts.join(', ')}
                       (default: open)
  --json               For other programs: the figures once, as JSON

  --admin URL          The gateway's admin API (default: ${DEFAULT_ADMIN})
${adminFlagsHelp}

Keys: q quits; o, n, t, r, d, a sort by open, new, traffic, refused, down, name; p shows
problems only; arrows, Page Up and Page Down scroll.

Rates are those of the last seconds; refusals those of the last five minutes. Without a
terminal it prints everything once, with rates of the last five minutes. If the gateway goes
away while you watch, it says so and keeps trying.

Exit codes: 0; 1 not reachable, login refused, or no such cluster; 64 wrong usage.`;

export const topCommand: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values } = parse('top', args, { ...clusterFlags, ...adminFlags });
  const { problems = false, cluster, json = false } = values;
  const sort = sortFlag(values.sort, topSorts) ?? 'open';
  const stop = new AbortController();
  const client = adminClient(values, stop.signal);
  const take = () => takeSample(client, cluster);
  try {
    const sample = await take();
    if (!process.stdout.isTTY) letReaderLeave();
    if (json) writeJson(snapshot(sample, { sort, problems }));
    else if (process.stdout.isTTY && process.env.TERM !== 'dumb') {
      await watch(sample, take, { sort, problems }, stop);
    } else {
      const state = { sample, sort, problems, scroll: 0 };
      process.stdout.write(`${topScreen(state, undefined, painter(process.stdout)).lines.join('\n')}\n`);
    }
    return 0;
  } catch (error) {
    if (!(error instanceof AdminClientError)) throw error;
    printError(`causeway: ${error.message}`);
    return NOT_REACHABLE;
  }
}

async function watch(
  first: Sample,
  take: () => Promise<Sample>,
  options: { readonly sort: TopSort; readonly problems: boolean },
  stop: AbortController,
): Promise<void> {
  const end = () => stop.abort();
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, end);
  try {
    await watchTop({
      ...options,
      first,
      take,
      input: process.stdin,
      output: process.stdout,
      paint: painter(process.stdout),
      suspend: () => process.kill(process.pid, 'SIGSTOP'),
      signal: stop.signal,
      end,
      wait: ms => sleep(ms, undefined, { signal: stop.signal }).catch(() => {}),
    });
  } finally {
    end();
    for (const signal of signals) process.off(signal, end);
  }
}

async function takeSample(client: AdminClient, cluster: string | undefined): Promise<Sample> {
  const [status, all, notReady] = await Promise.all([client.status(), client.clusters(), client.notReady()]);
  const clusters = cluster === undefined ? all : all.filter(({ name }) => name === cluster);
  if (cluster !== undefined && clusters.length === 0) throw noSuchCluster(cluster, all);
  return { at: performance.now(), status, clusters, notReady };
}

/** For other programs. */
function snapshot(
  sample: Sample,
  { sort, problems }: { readonly sort: TopSort; readonly problems: boolean },
): object {
  const troubled = new Set(
    sample.clusters.filter(each => !problems || hasProblem(each)).map(({ name }) => name),
  );
  const { seconds, total, clusters } = topFigures(sample);
  const asObject = <T extends { readonly refused: readonly (readonly [string, number])[] }>(rates: T) => ({
    ...rates,
    refused: Object.fromEntries(rates.refused),
  });
  return {
    seconds,
    total: asObject(total),
    clusters: sortClusters(
      clusters.filter(({ name }) => troubled.has(name)),
      sort,
    ).map(cluster => ({
      ...asObject(cluster),
      routes: cluster.routes.map(asObject),
    })),
    problems: troublesOf(sample).map(({ text }) => text.slice(2)),
  };
}
