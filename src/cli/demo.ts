// `causeway demo`: runs three small clusters behind a gateway on this machine.

import { type Command, parse, UsageError } from './command.ts';

const DEFAULT_PORT = 6443;

const help = `causeway demo: Run three clusters behind one address on this machine

  --port N   The gateway's port on 127.0.0.1 (default: ${DEFAULT_PORT})
  --once     Use any free port, test every way in, print a line with ✓ or ✗ for each, and exit

Starts stand-ins for three Kubernetes clusters on loopback, each with its own CA: two API
servers that a real kubectl can read and watch, konnectivity, and an ingress that serves a page
over https and http. In front of them runs the gateway, started as causeway run would start it,
on one port, with its dashboard on 127.0.0.1:9440, or on any free port if that one is taken.

Prints commands to copy: kubectl if it is installed, curl, and addresses for a browser.
No DNS is needed: curl gets the address from --resolve, kubectl from its kubeconfig, and
browsers resolve *.localhost to this machine.

Pods inside a cluster dial an IP address, without a server name. Each cluster has an agent,
started as causeway agent would start it, that forwards them to the gateway: hub with the uplink
proxy, managed1 with connect and managed2 with tunnel, the last two with signed ids. --once tests
all four uplinks, and that an unsigned id is refused.

Files go to ./demo-out (causeway.yaml, logs, kubeconfigs, CA certificates, agents' keys) and are
removed at the end. If ./demo-out exists and is not from a demo, the demo does not start.

Exit codes: 0 ended by Ctrl-C or SIGTERM, or all ✓; 1 at least one ✗; 2 cannot start because the
port or ./demo-out is taken; 64 wrong usage.`;

export const demoCommand: Command = { help, run };

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
