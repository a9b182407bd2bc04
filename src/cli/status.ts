// `causeway status`: shows what a running gateway serves, from its admin API.

import type { ClusterAnswer } from '../admin/clusters.ts';
import { type AdminClient, AdminClientError } from './admin-client.ts';
import { adminClient, adminFlags, adminFlagsHelp, DEFAULT_ADMIN } from './admin-flags.ts';
import { chooseClusters, clusterFlags, noSuchCluster, sortFlag, sortKeys } from './choose-clusters.ts';
import { type Command, parse } from './command.ts';
import { statusText } from './status-text.ts';
import { painter, printError, writeJson } from './terminal.ts';

const NOT_REACHABLE = 1;

const help = `causeway status: Show what a running gateway serves, and its health

  --problems           Only problems: backends that are down, routes without a backend, findings
  --cluster NAME       Only this cluster, with all its hosts and backends
  --sort KEY           Sort clusters by ${sortKeys.join(', ')}: names ascending,
                       figures descending; down is the number of backends that are down
                       (default: the gateway's order)
  --json               For other programs: the response of GET /api/v1/status; with one of the
                       flags above, clusters as in GET /api/v1/clusters

  --admin URL          The gateway's admin API (default: ${DEFAULT_ADMIN})
${adminFlagsHelp}

A backend is ✓ up, ✗ down or ? not checked (yet); the number after it is its open connections.

Exit codes: 0; 1 not reachable, login refused, or no such cluster; 64 wrong usage.`;

export const statusCommand: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values } = parse('status', args, { ...clusterFlags, ...adminFlags });
  const { problems = false, cluster, json = false } = values;
  const sort = sortFlag(values.sort, sortKeys);
  const client = adminClient(values);
  const narrowed = problems || cluster !== undefined || sort !== undefined;
  try {
    if (json && !narrowed) {
      writeJson(await client.get('/api/v1/status'));
      return 0;
    }
    const all = await client.clusters();
    if (cluster !== undefined && !all.some(({ name }) => name === cluster)) throw noSuchCluster(cluster, all);
    const clusters = chooseClusters(all, { problems, cluster, sort });
    if (json) writeJson(clusters);
    else await writeText(client, all, clusters, { isWhole: cluster !== undefined, problems });
    return 0;
  } catch (error) {
    if (!(error instanceof AdminClientError)) throw error;
    printError(`causeway: ${error.message}`);
    return NOT_REACHABLE;
  }
}

async function writeText(
  client: AdminClient,
  all: readonly ClusterAnswer[],
  shown: readonly ClusterAnswer[],
  options: { readonly isWhole: boolean; readonly problems: boolean },
): Promise<void> {
  const status = await client.status();
  const notReady = await client.notReady();
  process.stdout.write(statusText({ status, all, shown, notReady, ...options }, painter(process.stdout)));
}
