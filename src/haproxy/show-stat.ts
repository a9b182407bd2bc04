// Reads what `show stat` and `show sess all` of the runtime API answer. Pure: hostile or cut text gives fewer entries.

/** Columns of `show stat`, by position (Management Guide, 9.1): they never move. */
const NAME = 0;
const SERVER = 1;
const CURRENT = 4;

/** Connections that are open, by `section/server`; `FRONTEND` and `BACKEND` in place of a server are the whole section. */
export function parseStat(text: string): ReadonlyMap<string, number> {
  const open = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line.startsWith('#')) continue;
    const columns = line.split(',');
    const current = Number(columns[CURRENT]);
    if (columns.length > CURRENT && Number.isInteger(current))
      open.set(`${columns[NAME]}/${columns[SERVER]}`, current);
  }
  return open;
}

export interface Session {
  /** HAProxy's own pointer, `0x…`: it may mean another session once this one is gone. */
  readonly pointer: string;
  /** Its number in the process, which no other session has. */
  readonly number: number;
  readonly source: { readonly address: string; readonly port: number } | undefined;
  readonly frontend: string;
  readonly backend: string;
  readonly server: { readonly address: string; readonly port: number } | undefined;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly ageMs: number;
}

/** `now` in ms since 1970. */
export function parseSessions(text: string, now: number): Session[] {
  return text.split(/^(?=0x[0-9a-f]+: \[)/m).flatMap(entry => {
    const head =
      /^(0x[0-9a-f]+): \[(\d+)\/(\w{3})\/(\d+):(\d+):(\d+):(\d+)\.(\d+)\] id=(\d+) proto=\S+(?: source=(\S+))?/.exec(
        entry,
      );
    if (head === null) return [];
    const [, pointer, day, month, year, hour, minute, second, fraction, number, source] = head;
    const startedAt = new Date(
      Number(year),
      MONTHS.indexOf(month),
      Number(day),
      Number(hour),
      Number(minute),
      Number(second),
      Number(fraction.slice(0, 3)),
    ).getTime();
    return [
      {
        pointer,
        number: Number(number),
        source: addressOf(source),
        frontend: /^ {2}frontend=(\S+)/m.exec(entry)?.[1] ?? '',
        backend: /^ {2}backend=(\S+)/m.exec(entry)?.[1] ?? '',
        server: addressOf(/^ {2}server=\S+ \(id=\d+\) addr=(\S+)/m.exec(entry)?.[1]),
        bytesIn: Number(/^ {2}req=0x[^\n]* total=(\d+)/m.exec(entry)?.[1] ?? 0),
        bytesOut: Number(/^ {2}res=0x[^\n]* total=(\d+)/m.exec(entry)?.[1] ?? 0),
        ageMs: Math.max(0, now - startedAt),
      },
    ];
  });
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function addressOf(text = ''): { address: string; port: number } | undefined {
  const at = text.lastIndexOf(':');
  const port = Number(text.slice(at + 1));
  if (at < 1 || !Number.isInteger(port) || text.startsWith('unix')) return undefined;
  return { address: text.slice(0, at).replace(/^\[(.*)\]$/, '$1'), port };
}
