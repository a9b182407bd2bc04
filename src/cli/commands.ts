// The commands and where they are. Each is loaded only when it is used: some bring much more than others need, and
// `causeway --version` should answer at once.

import type { Command } from './command.ts';

export interface CommandEntry {
  readonly name: string;
  /** One line, for the overview. */
  readonly summary: string;
  load(): Promise<Command>;
}

export const commands: readonly CommandEntry[] = [
  {
    name: 'run',
    summary: 'Serve a config file',
    load: async () => (await import('./run.ts')).runCommand,
  },
  {
    name: 'check',
    summary: 'Validate a config file',
    load: async () => (await import('./check.ts')).checkCommand,
  },
  {
    name: 'explain',
    summary: 'Show what would happen to a connection, and why',
    load: async () => (await import('./explain.ts')).explainCommand,
  },
  {
    name: 'doctor',
    summary: 'Walk the whole way to each cluster, and say what is wrong',
    load: async () => (await import('./doctor.ts')).doctorCommand,
  },
  {
    name: 'status',
    summary: 'Show what a running gateway serves, and its health',
    load: async () => (await import('./status.ts')).statusCommand,
  },
  {
    name: 'top',
    summary: 'Watch what a running gateway serves',
    load: async () => (await import('./top.ts')).topCommand,
  },
  {
    name: 'demo',
    summary: 'Run three clusters behind one address on this machine, to try things out',
    load: async () => (await import('./demo.ts')).demoCommand,
  },
  {
    name: 'agent',
    summary: "Forward a tenant's in-cluster connections to the gateway",
    load: async () => (await import('./agent.ts')).agentCommand,
  },
  {
    name: 'identity',
    summary: 'Generate the secret and the keys that sign cluster ids',
    load: async () => (await import('./identity.ts')).identityCommand,
  },
  {
    name: 'import',
    summary: 'Turn the configuration of HAProxy, nginx or Traefik into a config file',
    load: async () => (await import('./import.ts')).importCommand,
  },
  {
    name: 'render',
    summary: 'Print what a config file means to an ingress controller, DNS or Kubernetes RBAC',
    load: async () => (await import('./render.ts')).renderCommand,
  },
  {
    name: 'dns',
    summary: 'Answer for the hosts of a config file, or check who does',
    load: async () => (await import('./dns.ts')).dnsCommand,
  },
];
