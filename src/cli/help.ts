// `causeway help`: an overview that is worth reading, and a page for each command.

import type { Command } from './command.ts';

/** Named so that whoever reads of them elsewhere learns why they are not found. */
export const laterCommands: readonly string[] = ['import', 'render', 'dns', 'doctor', 'top'];

export function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(command => command.name.length), 'help [COMMAND]'.length);
  const line = (name: string, summary: string) => `  ${name.padEnd(width)}  ${summary}`;
  return `Causeway: one IP address, every Kubernetes cluster.

Takes every TLS connection that arrives on one port to the right cluster, by its server
name or by the cluster id that an agent put in front of it, without opening it.

Usage: causeway COMMAND [FLAGS]

${commands.map(command => line(command.name, command.summary)).join('\n')}
${line('help [COMMAND]', 'Show this, or the flags and exit codes of one command')}
${line('version', 'Print the version; also -v, --version')}

See it work, on this machine alone:

  causeway demo

Begin with a file, causeway.yaml:

  listen: [":6443"]
  clusters:
    - name: lab
      api: { hosts: [api.lab.example.com], backends: [192.168.1.10:6443] }

  causeway check                                  is it valid?
  causeway run                                    serve it
  causeway explain https://api.lab.example.com    where would that go, and why?
  causeway status                                 what is served now, and is it healthy?

Not in this version yet: the commands ${laterCommands.slice(0, -1).join(', ')} and ${laterCommands.at(-1)}.
`;
}

export function helpFor(command: Command): string {
  return `${command.help}\n`;
}
