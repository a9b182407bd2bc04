// Everything about HAProxy that changes while it runs: entries of maps, allow lists, addresses and states of servers. A
// change from one state to another becomes commands of the runtime API (HAProxy Management Guide, 9.3). Pure.

export interface RuntimeState {
  /** By file name: the entries of a map. */
  readonly maps: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** By file name: the networks of an allow list. */
  readonly lists: ReadonlyMap<string, readonly string[]>;
  /** By `section/server`. Servers that are not listed are in maintenance. */
  readonly servers: ReadonlyMap<string, ServerState>;
}

export interface ServerState {
  readonly address: string;
  readonly port: number;
  readonly isUp: boolean;
}

/**
 * The commands that lead from one state to the other, in an order in which no connection is sent to a server that is
 * not there yet: new servers, then allow lists, then names, then servers and allow lists that are gone. `path` of a file
 * as HAProxy knows it. Maps that no rule reads (`isRead`) are unknown to HAProxy.
 */
export function commandsBetween(
  before: RuntimeState,
  after: RuntimeState,
  path: (file: string) => string,
  isRead: (file: string) => boolean = () => true,
): readonly string[] {
  return [
    ...[...after.servers].flatMap(([name, state]) => serverCommands(name, before.servers.get(name), state)),
    ...[...after.lists].flatMap(([file, networks]) =>
      listCommands(path(file), before.lists.get(file) ?? [], networks),
    ),
    ...[...after.maps]
      .filter(([file]) => isRead(file))
      .flatMap(([file, entries]) => mapCommands(path(file), before.maps.get(file) ?? new Map(), entries)),
    ...[...before.servers.keys()]
      .filter(name => !after.servers.has(name))
      .map(name => `set server ${name} state maint`),
    ...[...before.lists]
      .filter(([file]) => !after.lists.has(file))
      .flatMap(([file, networks]) => listCommands(path(file), networks, [])),
  ];
}

function serverCommands(name: string, before: ServerState | undefined, after: ServerState): string[] {
  const commands: string[] = [];
  if (before?.address !== after.address || before.port !== after.port)
    commands.push(`set server ${name} addr ${after.address} port ${after.port}`);
  if ((before?.isUp ?? false) !== after.isUp)
    commands.push(`set server ${name} state ${after.isUp ? 'ready' : 'maint'}`);
  return commands;
}

/** A new network is added before an old one goes, so that nobody is refused who is allowed before and after. */
function listCommands(file: string, before: readonly string[], after: readonly string[]): string[] {
  return [
    ...after.filter(network => !before.includes(network)).map(network => `add acl ${file} ${network}`),
    ...before.filter(network => !after.includes(network)).map(network => `del acl ${file} ${network}`),
  ];
}

function mapCommands(
  file: string,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): string[] {
  const commands: string[] = [];
  for (const [key, value] of after) {
    const old = before.get(key);
    if (old === undefined) commands.push(`add map ${file} ${key} ${value}`);
    else if (old !== value) commands.push(`set map ${file} ${key} ${value}`);
  }
  for (const key of before.keys()) if (!after.has(key)) commands.push(`del map ${file} ${key}`);
  return commands;
}

/** The files that a new process reads: every map and allow list, by name. */
export function filesOf({ maps, lists }: RuntimeState): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  for (const [file, entries] of maps)
    files.set(file, [...entries].map(([key, value]) => `${key} ${value}\n`).join(''));
  for (const [file, networks] of lists) files.set(file, networks.map(network => `${network}\n`).join(''));
  return files;
}
