// `causeway demo`: three small clusters behind a gateway on this machine, and what to try.

import { type Command, parse, UsageError } from './command.ts';

const DEFAULT_PORT = 6443;

const help = `causeway demo: Run three clusters behind one address on this machine

  --port N   The gateway's port on 127.0.0.1 (default: ${DEFAULT_PORT})
  --once     Take any free port, prove every way in, print a line with ✓ or ✗ for each, and exit

Starts stand-ins for three Kubernetes clusters on loopback, each with an authority of its own:
two API servers that a real kubectl can read and watch, konnectivity, and an ingress with a
page on https and http. In front of them is the gateway as run starts it, on one port, with
its dashboard on 127.0.0.1:9440, or on any free port where that is taken.

Prints commands to copy: kubectl where it is installed, curl, and what to open in a browser.
No DNS is needed: curl gets the address by --resolve, kubectl by its kubeconfig, and browsers
resolve *.localhost to this machine.

Pods inside a cluster dial an address, without a server name. Each cluster has an agent, as
causeway agent starts it, that brings them to the gateway: hub by the uplink proxy, managed1 by
connect and managed2 by tunnel, these two with signed ids. --once shows all four uplinks, and
that an id without proof is refused.

Files go to ./demo-out (causeway.yaml, logs, kubeconfigs, CA certificates, agents' keys) and are
removed at the end. A ./demo-out that is not from a demo is left alone, and the demo does not start.

Exit codes: 0 ended by Ctrl-C or SIGTERM, or all ✓; 1 some ✗; 2 cannot start, as the port or
./demo-out is taken; 64 wrong usage.`;

export const demoCommand: Command = {
  name: 'demo',
  summary: 'Run three clusters behind one address on this machine, and see what to try',
  help,
  run,
};

async function run(args: readonly string[]): Promise<number> {
  const { values } = parse('demo', args, { once: { type: 'boolean' }, port: { type: 'string' } });
  const once = values.once === true;
  const port = portFlag(values.port) ?? (once ? 0 : DEFAULT_PORT);
  const { showDemo } = await import('./show-demo.ts');
  return showDemo(once, port);
}

function portFlag(flag: string | undefined): number | undefined {
  if (flag === undefined) return undefined;
  const port = Number(flag);
  if (!/^\d+$/.test(flag) || port < 1 || port > 65_535) {
    throw new UsageError(`--port must be a number from 1 to 65535: ${flag}`);
  }
  return port;
}
