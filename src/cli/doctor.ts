// `causeway doctor`: walks the whole way to each cluster and says what is wrong and what to do.

import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { createInterface } from 'node:readline/promises';
import { formatHostPort } from '../config/address.ts';
import type { Admin, Config } from '../config/config.ts';
import type { Diagnosis } from '../doctor/check.ts';
import { diagnose } from '../doctor/diagnose.ts';
import type { Address } from '../doctor/network.ts';
import { nodeNetwork } from '../doctor/node-network.ts';
import type { Repair } from '../doctor/repair.ts';
import { systemClock } from '../kube/clock.ts';
import { AdminClient } from './admin-client.ts';
import { type Command, configFile, parse, UsageError } from './command.ts';
import { ownDnsServers } from './dns-flags.ts';
import { diagnosisText, repairText } from './doctor-text.ts';
import { systemLookup } from './system-lookup.ts';
import { painter, printError, writeJson } from './terminal.ts';

const FAILED = 1;
const CANNOT_CHECK = 2;
/** Where --address names no port. */
const DEFAULT_PORT = 6443;

const help = `causeway doctor [CLUSTER]: Walk the whole way to each cluster, and say what is wrong

  causeway doctor
  causeway doctor lab --address 203.0.113.10:6443
  causeway doctor lab --tenant-kubeconfig lab.kubeconfig
  causeway doctor tenants.a --kubeconfig management.kubeconfig --fix

  CLUSTER              Only this cluster (default: all)
  -c, --config FILE    The file that the gateway serves (default: causeway.yaml)
  --address IP:PORT    Where clients reach the gateway, such as a load balancer in front of it.
                       Default: the listener's address in the file; for a listener on every
                       address (":6443") this machine, if something answers there, else where
                       DNS leads
  --kubeconfig FILE    The API server that sources and outputs use, where the file means the
                       pod's own: lists clusters, reads ingress objects and admin kubeconfigs
  --tenant-kubeconfig FILE
                       The kubeconfig of one cluster: asks who it is, and looks at the agents
                       and at the endpoints of kubernetes.default.svc inside
  --fix                Show what can be mended safely, each as a kubectl command, and ask before
                       each change. Changes nothing without a terminal, or with --json
  --json               { ok, checks, notChecked } on stdout, with --fix also repairs. A check has
                       step, cluster, status (ok, warn, fail), code, text, fix

It looks at: config and table, DNS, TCP, route, TLS through the gateway (certificate, names,
expiry, ALPN), API server, konnectivity, tenant (agents, EndpointSlice, Secret, a connection
without server name), ingress objects, certificates that two clusters share, clocks. Without
kubeconfigs it sees what any client sees. It changes nothing unless you say yes to --fix.

Exit codes: 0 nothing failed; 1 a failure; 2 could not check; 64 wrong usage.`;

export const doctorCommand: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse(
    'doctor',
    args,
    {
      config: { type: 'string', short: 'c' },
      address: { type: 'string' },
      kubeconfig: { type: 'string' },
      'tenant-kubeconfig': { type: 'string' },
      fix: { type: 'boolean' },
      json: { type: 'boolean' },
    },
    true,
  );
  if (positionals.length > 1) throw new UsageError('Give at most one cluster: causeway doctor CLUSTER');
  const file = configFile('doctor', values.config);
  using resources = new DisposableStack();
  const progress = progressOn(values.json === true);
  const outcome = await diagnose(
    {
      file,
      cluster: positionals[0],
      address: values.address === undefined ? undefined : addressOf(values.address),
      kubeconfig: values.kubeconfig,
      tenantKubeconfig: values['tenant-kubeconfig'],
      network: nodeNetwork,
      lookup: systemLookup(ownDnsServers()),
      clock: systemClock,
      adminOf,
      environment: process.env,
      uid: process.getuid?.(),
      haproxy: haproxyHere(),
      onProgress: progress.show,
    },
    resources,
  );
  progress.clear();
  if (outcome.kind === 'impossible') {
    printError(...outcome.sentences.map(sentence => `causeway: ${sentence}`));
    return CANNOT_CHECK;
  }
  const { diagnosis, repairs } = outcome;
  const ok = !diagnosis.checks.some(({ status }) => status === 'fail');
  if (values.json === true) writeReport(diagnosis, ok, values.fix === true ? repairs : undefined);
  else {
    process.stdout.write(diagnosisText(diagnosis, painter(process.stdout)));
    if (values.fix === true) await offer(repairs);
  }
  return ok ? 0 : FAILED;
}

/** As Debian, Red Hat and the official image have it. */
const HAPROXY_FILE = '/etc/haproxy/haproxy.cfg';

function haproxyHere(): { readonly file: string; readonly text: string } | undefined {
  try {
    return { file: HAPROXY_FILE, text: readFileSync(HAPROXY_FILE, 'utf8') };
  } catch {
    return undefined;
  }
}

function writeReport(
  { checks, notChecked }: Diagnosis,
  ok: boolean,
  repairs: readonly Repair[] | undefined,
): void {
  const offered = repairs?.map(({ cluster, what, command }) => ({ cluster, what, command }));
  writeJson({ ok, checks, notChecked, ...(offered && { repairs: offered }) });
}

/** Shows each repair, and makes those that a person at a terminal agrees to. */
async function offer(repairs: readonly Repair[]): Promise<void> {
  if (repairs.length === 0) return printError('--fix: nothing that can be mended safely from here');
  const canAsk = process.stdin.isTTY === true && process.stderr.isTTY === true;
  if (!canAsk) {
    for (const repair of repairs) process.stderr.write(repairText(repair));
    return printError(
      '--fix: nothing was changed, since this is no terminal to ask on; the commands above do the same',
    );
  }
  const questions = createInterface({ input: process.stdin, output: process.stderr });
  // By Ctrl-C or Ctrl-D: then nothing else is asked.
  const closed = new Promise<undefined>(resolve => questions.once('close', () => resolve(undefined)));
  try {
    for (const repair of repairs) {
      process.stderr.write(repairText(repair));
      const text = await Promise.race([questions.question('Make this change? [y/N] '), closed]);
      const answer = text?.trim().toLowerCase();
      if (answer === undefined) return printError('', 'not changed');
      if (answer !== 'y' && answer !== 'yes') {
        printError('not changed');
        continue;
      }
      const failure = await repair.apply();
      printError(failure === undefined ? 'changed; run doctor again in a minute' : `not changed: ${failure}`);
    }
  } finally {
    questions.close();
  }
}

function addressOf(text: string): Address {
  const match = /^(?:\[([^\]]+)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text);
  const bare = isIP(text) === 6 ? text : undefined;
  const host = bare ?? match?.[1] ?? match?.[2] ?? '';
  const port = bare === undefined ? Number(match?.[3] ?? DEFAULT_PORT) : DEFAULT_PORT;
  if (isIP(host) === 0 || port < 1 || port > 65_535) {
    throw new UsageError(
      `--address must be IP:PORT, such as 203.0.113.10:6443 or [2001:db8::1]:6443: ${text}`,
    );
  }
  return { host, port };
}

/** Only without a login: doctor has no credentials for it. */
function adminOf({ admin }: Config): ((path: string) => Promise<unknown>) | undefined {
  const url = adminUrl(admin);
  if (url === undefined || admin.auth.length > 0) return undefined;
  const client = new AdminClient({ url });
  return path => client.get(path);
}

function adminUrl({ on, tls }: Admin): URL | undefined {
  if (on === 'off' || on.port === 0 || tls !== undefined) return undefined;
  const host = ['', '0.0.0.0', '::'].includes(on.host) ? '127.0.0.1' : on.host;
  return new URL(`http://${formatHostPort(host, on.port)}`);
}

/** One line on a terminal that is overwritten, and nothing elsewhere. */
function progressOn(isJson: boolean): { show(done: number, all: number): void; clear(): void } {
  const isShown = process.stderr.isTTY === true && process.env.TERM !== 'dumb';
  const write = (text: string) => {
    if (isShown) process.stderr.write(`\r\x1b[K${text}`);
  };
  write(isJson ? '' : 'reading the file…');
  return { show: (done, all) => write(`checking clusters: ${done} of ${all}`), clear: () => write('') };
}
