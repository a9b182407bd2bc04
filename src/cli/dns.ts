// `causeway dns`: answer for the hosts of a file, or check who does.

import { nearest } from '../text/nearest.ts';
import { type Command, UsageError } from './command.ts';
import { dnsCheck } from './dns-check.ts';
import { dnsServe } from './dns-serve.ts';

const help = `causeway dns: Answer for the hosts of a config file, or check who does

  causeway dns serve --on :53 --address 203.0.113.10
  causeway dns check --address 203.0.113.10
  causeway dns check --address 203.0.113.10 --server 192.0.2.53:53 --format windows

  serve                An authoritative DNS server: every host of the file leads to the gateway.
                       UDP and TCP. The file is watched; an edit changes the answers within a
                       second, and one that is invalid is refused
    --on ADDRESS         Where to listen (default: :53, every address of this machine)
    --address IP         The gateway's address, IPv4 or IPv6; give all of them
    --zone NAME          A zone to answer for. Default: found from the hosts, the longest common
                         suffix of those with the same last two labels
    --name-server NAME   Of the zones, as their parents delegate them
                         (default: ns.ZONE, at the gateway's addresses)
    --ttl DURATION       Of all answers (default: 60s)

  check                Does every host of the file lead to the gateway? Wildcards are asked for
                       with a random label. Names what is missing, leads elsewhere, is hidden
                       from a wildcard by a nearer name or has a long TTL, and what to change
    --address IP         The gateway's address, IPv4 or IPv6; give all of them
    --server IP[:PORT]   The DNS server to ask (default: those of this machine, after its hosts
                         file)
    --format FORMAT      Of the changes, as in causeway render dns (default: bind)
    --json               { ok, findings, mend } on stdout

  -c, --config FILE    The file to read (default: causeway.yaml)

Within causeway run, the output dnsServer answers like serve, also for clusters of sources.

Exit codes: serve: 0; 1 bad config; 2 cannot listen. check: 0; 1 a host does not lead to the
gateway; 2 could not check. Both: 64 wrong usage.`;

const actions = { serve: dnsServe, check: dnsCheck } as const satisfies Record<
  string,
  (args: readonly string[]) => unknown
>;

export const dnsCommand: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const [given, ...rest] = args;
  const known = Object.keys(actions);
  if (given !== undefined && Object.hasOwn(actions, given))
    return actions[given as keyof typeof actions](rest);
  const see = "See 'causeway help dns'";
  if (given === undefined || given.startsWith('-'))
    throw new UsageError(`Name what to do: ${known.join(' or ')}. ${see}`);
  const near = nearest(given, known);
  throw new UsageError(
    `Unknown action '${given}'.${near === undefined ? '' : ` Did you mean '${near}'?`} ${see}`,
  );
}
