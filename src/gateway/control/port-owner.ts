// Who listens on a port, as far as Linux tells: the user always, the process only if it is ours or we are root.

import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const LISTENING = '0A';
/** Columns of /proc/net/tcp. */
const LOCAL_ADDRESS = 1;
const STATE = 3;
const UID = 7;
const INODE = 9;

/** In words, such as `haproxy, process 812, user haproxy`; undefined if it cannot be known. */
export function portOwner(port: number): string | undefined {
  const socket = ['tcp', 'tcp6'].flatMap(name => listeningOn(name, port))[0];
  if (socket === undefined) return undefined;
  const user = `user ${nameOfUser(socket.uid)}`;
  const owner = processWith(socket.inode);
  return owner === undefined ? user : `${owner.name}, process ${owner.pid}, ${user}`;
}

function listeningOn(
  name: string,
  port: number,
): readonly { readonly uid: string; readonly inode: string }[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return linesOf(`/proc/net/${name}`)
    .map(line => line.trim().split(/\s+/))
    .filter(fields => fields[LOCAL_ADDRESS]?.endsWith(suffix) === true && fields[STATE] === LISTENING)
    .map(fields => ({ uid: fields[UID], inode: fields[INODE] }));
}

function nameOfUser(uid: string): string {
  const line = linesOf('/etc/passwd').find(entry => entry.split(':')[2] === uid);
  return line === undefined ? uid : line.split(':')[0];
}

function processWith(inode: string): { readonly pid: string; readonly name: string } | undefined {
  const target = `socket:[${inode}]`;
  for (const pid of namesIn('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    const folder = `/proc/${pid}/fd`;
    if (!namesIn(folder).some(descriptor => linkAt(`${folder}/${descriptor}`) === target)) continue;
    return { pid, name: linesOf(`/proc/${pid}/comm`)[0] ?? 'unknown' };
  }
  return undefined;
}

/** Processes come and go, and those of others cannot be read: what cannot be read is empty. */
function linesOf(path: string): readonly string[] {
  try {
    return readFileSync(path, 'utf8').split('\n');
  } catch {
    return [];
  }
}

function namesIn(path: string): readonly string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
