// A worker's view of its listeners: whose headers are trusted there, and which kinds of route are reachable.

import { type AllowList, compileAllowList } from './allow-list.ts';

/** As sent by the control thread. */
export interface ListenerEntry {
  /** As written in the file; names the listener in logs. */
  readonly on: string;
  readonly balancers: readonly string[];
  readonly agents: readonly string[];
  readonly idTlv: readonly number[];
  readonly only?: readonly string[];
  /** On an agent: every connection goes to this cluster's `api`, unread. */
  readonly direct?: string;
}

/** Compiled for the stages. An empty list becomes undefined and contains no address. */
export interface TableListener {
  readonly on: string;
  readonly balancers: AllowList | undefined;
  readonly agents: AllowList | undefined;
  readonly idTlv: ReadonlySet<number>;
  /** Kinds of route reachable here; undefined means all. */
  readonly only: ReadonlySet<string> | undefined;
  readonly direct: string | undefined;
}

export function compileListener(entry: ListenerEntry): TableListener {
  return {
    on: entry.on,
    balancers: entry.balancers.length === 0 ? undefined : compileAllowList(entry.balancers),
    agents: entry.agents.length === 0 ? undefined : compileAllowList(entry.agents),
    idTlv: new Set(entry.idTlv),
    only: entry.only === undefined ? undefined : new Set(entry.only),
    direct: entry.direct,
  };
}
