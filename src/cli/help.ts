// `causeway help`: the overview, and a page for each command.

import type { Command } from './command.ts';
import type { CommandEntry } from './commands.ts';

export function overview(commands: readonly CommandEntry[]): string {
  const width = Math.max(...commands.map(command => command.name.length), 'help [COMMAND]'.length);
  const line = (name: string, summary: string) => `  ${name.padEnd(width)}  ${summary}`;
  return `Causeway: one IP address, every Kubernetes cluster.

Forwards every TLS connection that arrives on one port to the right cluster, by its server
name or by the cluster id that an agent puts in front of it, without decrypting it.

Usage: causeway COMMAND [FLAGS]

${commands.map(command => line(command.name, command.summary)).join('\n')}
${line('help [COMMAND]', 'Show this overview, or the flags and exit codes of one command')}
${line('version', 'Print the version; also -v, --version')}

Try it on this machine:

  causeway demo

Start with a file, causeway.yaml:

  listen: [":6443"]
  clusters:
    - name: lab
      api: { hosts: [api.lab.example.com], backends: [192.168.1.10:6443] }

  causeway check                                  validate it
  causeway run                                    serve it
  causeway explain https://api.lab.example.com    see where that would go, and why
  causeway status                                 see what is served now, and whether it is healthy
  causeway doctor                                 find out what is wrong on the way to a cluster
`;
}

export function helpFor(command: Command): string {
  return `${command.help}\n`;
}
