// `causeway agent`: the tenant side as a process. Flags and environment, exit codes and the log; signals are lifetime.ts's,
// everything else is the agent's.

import { hostname } from 'node:os';
import { Agent } from '../agent/agent.ts';
import { AdvertiseError } from '../agent/agent-endpoint.ts';
import { AgentFileError } from '../agent/agent-files.ts';
import { type AgentFlags, type AgentOptions, readAgentOptions } from '../agent/agent-options.ts';
import { LocalAddressError } from '../agent/local-address.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { StartError } from '../gateway/control/start-error.ts';
import { KubeAccessError } from '../kube/kube-access.ts';
import { type Command, parse, UsageError } from './command.ts';
import { Lifetime } from './lifetime.ts';
import { type Log, openLog } from './log.ts';
import { machine } from './machine.ts';
import { coloured } from './terminal.ts';
import { version } from './version.ts';

const BAD_FILE = 1;
const CANNOT_LISTEN = 2;
const ENVIRONMENT = 'CAUSEWAY_AGENT_';

const help = `causeway agent: brings a tenant's own connections to the gateway

Pods and nodes dial kubernetes.default.svc, an IP address: their connections name no server.
An agent in the tenant takes them and marks them with the cluster's id.

  --cluster-id ID       the id that the gateway knows the cluster by
  --gateway HOST:PORT   the gateway
  --uplink UPLINK       how to reach it:
                          proxy      a PROXY v2 header with the id; the gateway's listener has
                                     this node in agents. As HyperShift's nodes do it
                          connect    HTTP/1.1 CONNECT to the id; as above
                          tunnel     TLS to a tunnel host, through any SNI router on the way,
                                     inside it the id, signed, and the client's TLS untouched
                          terminate  the client's TLS ends here and a new one goes to
                                     --server-name; client certificates do not survive
  --on IP:PORT          where clients come: 172.20.0.1:6443

  --key-file F          the cluster's key, which signs the id (causeway identity key)
  --server-name HOST    tunnel, terminate: SNI on the way, and the name in the certificate
                        (default: the gateway's host)
  --ca-file F           tunnel, terminate: who signed the gateway's certificate (default: the
                        system's). It is always verified
  --cert-file F, --cert-key-file F
                        terminate: what the clients see
  --gateway-address IP  stands for the gateway's name, before there is DNS; may be repeated
  --local-address IP    added to --local-device (lo) while the agent runs; needs NET_ADMIN
                        unless it is there already
  --endpoints           keeps EndpointSlice and Endpoints default/kubernetes right, with
                        --advertise IP (default: that of --on; once for each family) and
                        --kubeconfig F (default: the pod's service account). Agents know of
                        each other by Leases in --lease-namespace NS (default: kube-system),
                        the same for all
  --metrics-on IP:PORT  /healthz, /readyz and /metrics
  --engine ENGINE       auto (default), epoll or net
  --workers N           worker threads (default: 2, or 1 where there is one core)

Every flag is also an environment variable: --cluster-id is CAUSEWAY_AGENT_CLUSTER_ID; those
that may be repeated take a list with commas. A flag that the uplink has no use for, as
--server-name with proxy, is named in the log, and that is all.

SIGTERM and SIGINT drain: open connections may finish; the second one ends now. With
--endpoints the address leaves them first, and 5 s later nothing more is accepted. Files
are read again when they change. The log goes to stdout as that of causeway run does.

Exit codes: 0 after a drain; 1 a file or an address cannot be used; 2 cannot listen or start; 64 wrong
usage; 70 a fault of causeway itself, to be started again.`;

export const agentCommand: Command = {
  name: 'agent',
  summary: "brings a tenant's own connections to the gateway",
  help,
  run,
};

const flags = {
  'cluster-id': { type: 'string' },
  gateway: { type: 'string' },
  uplink: { type: 'string' },
  on: { type: 'string' },
  'server-name': { type: 'string' },
  'key-file': { type: 'string' },
  'ca-file': { type: 'string' },
  'cert-file': { type: 'string' },
  'cert-key-file': { type: 'string' },
  'gateway-address': { type: 'string', multiple: true },
  'local-address': { type: 'string' },
  'local-device': { type: 'string' },
  endpoints: { type: 'boolean' },
  kubeconfig: { type: 'string' },
  advertise: { type: 'string', multiple: true },
  'lease-namespace': { type: 'string' },
  'metrics-on': { type: 'string' },
  engine: { type: 'string' },
  workers: { type: 'string' },
} as const;

async function run(args: readonly string[]): Promise<number> {
  const { values } = parse('agent', args, flags);
  const read = readAgentOptions({ ...fromEnvironment(process.env), ...(values as AgentFlags) });
  if (!read.ok) throw new UsageError(`${read.mistakes.join('\n          ')}. See 'causeway help agent'`);
  const log = openLog(
    { level: 'info', format: 'auto', connections: 'all' },
    process.stdout.isTTY === true,
    coloured(process.stdout),
  );
  const lifetime = await Lifetime.begin();
  lifetime.use(log);
  for (const flag of read.unused) log.logger.warn(flag);
  try {
    await serve(lifetime, read.options, log);
    return lifetime.exit(0);
  } catch (error) {
    if (error instanceof ListenError || error instanceof StartError)
      return lifetime.exit(refuse(error, CANNOT_LISTEN));
    if (mistakes.some(kind => error instanceof kind)) return lifetime.exit(refuse(error as Error, BAD_FILE));
    throw error;
  }
}

/** What a person must change. */
const mistakes = [AgentFileError, LocalAddressError, AdvertiseError, KubeAccessError] as const;

function refuse({ message }: Error, code: number): number {
  process.stderr.write(`${message}\n`);
  return code;
}

/** CAUSEWAY_AGENT_CLUSTER_ID stands for --cluster-id; a flag stands above it. */
function fromEnvironment(environment: NodeJS.ProcessEnv): AgentFlags {
  const found: Record<string, string | boolean | string[]> = {};
  for (const [name, { type, ...rest }] of Object.entries(flags)) {
    const variable = ENVIRONMENT + name.toUpperCase().replaceAll('-', '_');
    const value = environment[variable];
    if (value === undefined || value === '') continue;
    if (type === 'boolean') found[name] = readBoolean(variable, value);
    else found[name] = 'multiple' in rest ? value.split(',').map(one => one.trim()) : value;
  }
  return found;
}

function readBoolean(variable: string, value: string): boolean {
  if (/^(true|1)$/i.test(value)) return true;
  if (/^(false|0)$/i.test(value)) return false;
  throw new UsageError(`${variable} must be true or false: ${value}. See 'causeway help agent'`);
}

async function serve(lifetime: Lifetime, options: AgentOptions, { logger }: Log): Promise<void> {
  const host = {
    ...machine(),
    version: version(),
    // Downward API: what tells this agent from the others of its cluster.
    identity: `${process.env.NODE_NAME ?? hostname()}/${process.env.POD_NAME ?? hostname()}`,
  };
  const { clusterId, uplink, gateway } = options;
  await lifetime.serve(
    () => Agent.start(options, host, logger),
    agent => {
      const { engine, workers, listeners } = agent.status();
      logger.info(
        {
          listen: listeners.map(({ address }) => address),
          admin: agent.metricsUrl,
          engine,
          workers,
          clusterId,
          uplink,
          gateway: `${gateway.host}:${gateway.port}`,
        },
        'ready',
      );
    },
  );
}
