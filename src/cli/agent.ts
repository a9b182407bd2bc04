// `causeway agent`: runs the tenant side as a process. This file handles flags, environment, exit codes and the log;
// lifetime.ts handles signals, and agent/ does everything else.

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
import { coloured, printError } from './terminal.ts';
import { version } from './version.ts';

const BAD_FILE = 1;
const CANNOT_LISTEN = 2;
const ENVIRONMENT = 'CAUSEWAY_AGENT_';

const help = `causeway agent: Forward a tenant's in-cluster connections to the gateway

Pods and nodes dial kubernetes.default.svc, an IP address, so their connections carry no
server name. An agent in the tenant accepts them and marks them with the cluster's id.

  --cluster-id ID       The cluster's id at the gateway
  --gateway HOST:PORT   The gateway
  --uplink UPLINK       How to reach it:
                          proxy      A PROXY v2 header with the id, as HyperShift's nodes send
                                     it; the gateway's listener must list this node in agents
                          connect    HTTP/1.1 CONNECT to the id; needs agents as well
                          tunnel     TLS to a tunnel host, through any SNI router in between;
                                     carries the signed id and the client's TLS, untouched
                          terminate  Ends the client's TLS here and opens a new connection to
                                     --server-name; client certificates are lost
  --on IP:PORT          Where to accept clients: 172.20.0.1:6443

  --key-file FILE       The cluster's key, which signs the id (see causeway help identity)
  --server-name HOST    tunnel, terminate: SNI, and the name in the gateway's certificate
                        (default: the host of --gateway)
  --ca-file FILE        tunnel, terminate: the CA of that certificate, which is always
                        verified (default: the system's)
  --cert-file FILE, --cert-key-file FILE
                        terminate: the certificate that clients see, and its key
  --gateway-address IP  Use this address instead of resolving the gateway's name, such as
                        before DNS works; may be repeated
  --local-address IP    Add this address to --local-device (default: lo) while the agent
                        runs; needs NET_ADMIN unless the address already exists
  --endpoints           Maintain EndpointSlice and Endpoints default/kubernetes, with
                        --advertise IP (default: that of --on; once per family) and
                        --kubeconfig FILE (default: the pod's service account). Agents find
                        each other through Leases in --lease-namespace NS (default:
                        kube-system; must be the same for all agents)
  --metrics-on IP:PORT  Serve /healthz, /readyz and /metrics here
  --engine ENGINE       auto (default), epoll or net
  --workers N           Worker threads (default: 2, or 1 on a single core)

Every flag can also be set as an environment variable: --cluster-id is
CAUSEWAY_AGENT_CLUSTER_ID; flags that may be repeated take a comma-separated list. A flag that
the uplink does not use, such as --server-name with proxy, gives a warning in the log.

SIGTERM or SIGINT drains: open connections may finish; a second signal exits at once. With
--endpoints the agent removes its address first, and stops accepting 5 s later.
Files are reread when they change. The log goes to stdout, as with causeway run.

Exit codes: 0 after a drain; 1 an unusable file or address; 2 cannot listen or start;
64 wrong usage; 70 internal fault: restart it.`;

export const agentCommand: Command = { help, run };

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
  if (!read.ok)
    throw new UsageError([
      ...read.mistakes.slice(0, -1),
      `${read.mistakes.at(-1)}. See 'causeway help agent'`,
    ]);
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

/** Errors that the operator must fix; anything else is a fault of ours. */
const mistakes = [AgentFileError, LocalAddressError, AdvertiseError, KubeAccessError] as const;

function refuse({ message }: Error, code: number): number {
  printError(message);
  return code;
}

/** CAUSEWAY_AGENT_CLUSTER_ID sets --cluster-id; a flag takes precedence. */
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

async function serve(
  lifetime: Lifetime,
  options: AgentOptions,
  { logger, countDropped }: Log,
): Promise<void> {
  const host = {
    ...machine(),
    version: version(),
    // From the downward API; distinguishes this agent from the others of its cluster.
    identity: `${process.env.NODE_NAME ?? hostname()}/${process.env.POD_NAME ?? hostname()}`,
  };
  const { clusterId, uplink, gateway } = options;
  await lifetime.serve(
    () => Agent.start(options, host, logger, countDropped),
    agent => {
      const { engine, workers, listeners } = agent.status();
      logger.info(
        {
          version: host.version,
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
