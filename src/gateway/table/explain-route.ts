// The stage `route` for explain.ts: where a name leads, or why it leads nowhere. A known name may be unreachable on
// this listener, in this protocol or without an ALPN.

import { CATCH_ALL, normalizeHost, patternFor } from '../../cluster/hostname.ts';
import type { CloseReason } from '../close-reason.ts';
import { TUNNEL_SLOT } from '../shared/shared-memory.ts';
import { routeConnect, routeHttp, routeTls } from '../stages/route.ts';
import { shownList } from './explain-lists.ts';
import { compileListener, type ListenerEntry, type TableListener } from './listener-table.ts';
import type { Question } from './question.ts';
import { suggestHost, suggestId } from './suggest-host.ts';
import type { Table, TableRoute } from './table.ts';

export function routeOf(table: Table, question: Question, listener: TableListener): TableRoute | CloseReason {
  const host = normalizeHost(question.host);
  if (question.protocol === 'connect') return routeConnect(table, listener, host);
  if (question.protocol === 'http') return routeHttp(table, listener, host);
  return routeTls(table, listener, host, [], question.id);
}

export function whyNoRoute(
  table: Table,
  question: Question,
  entry: ListenerEntry,
  reason: CloseReason,
): string {
  const { host, id } = question;
  if (reason === 'unknown-cluster') return `no cluster has the id '${id}'${suggestId(table, id ?? '')}`;
  if (reason === 'no-sni') return `'${host}' is not a valid server name, and no id names the cluster`;
  const { only: _, ...servesAll } = entry;
  const hidden = routeOf(table, question, compileListener(servesAll));
  if (typeof hidden !== 'string')
    return `${whose(question, hidden)}, but ${entry.on} does not serve '${hidden.kind}'${describeOnly(entry)}`;
  if (id !== undefined) return `the cluster with id '${id}' has no route 'api'`;
  const known = knownRoute(table, question);
  if (known === undefined)
    return `no cluster has '${host}'${suggestHost(table, question, normalizeHost(host))}`;
  if (known.slot === TUNNEL_SLOT) return `'${host}' is a tunnel host, reached only by TLS`;
  return `${whose(question, known)}, but its '${known.kind}' is reached only ${howReached(question, known)}`;
}

/** The route of a name, in any protocol. CONNECT ignores `*`. */
function knownRoute(table: Table, { host: text, protocol }: Question): TableRoute | undefined {
  const host = normalizeHost(text);
  const http = table.httpRoute(host);
  const isNamed = http !== undefined && patternFor(host, http.hosts) !== CATCH_ALL;
  const named = table.routesByHost(host)?.[0] ?? (isNamed ? http : undefined);
  return named ?? (protocol === 'connect' ? undefined : (http ?? table.catchAll?.[0]));
}

/** The tunnel's own listener serves no kind of route. */
function describeOnly({ only = [] }: ListenerEntry): string {
  return only.length === 0 ? '' : `: its only is ${shownList(only)}`;
}

function howReached({ protocol }: Question, { kind, alpn }: TableRoute): string {
  if (protocol === 'connect') return "by CONNECT with a name under 'connect'";
  if (kind === 'apps-http') return 'by HTTP';
  return protocol === 'tls' ? `with the ALPN ${alpn.join(' or ')}` : 'by TLS';
}

function whose({ host, id, protocol }: Question, { cluster, hosts }: TableRoute): string {
  if (id !== undefined) return `id '${id}' belongs to cluster '${cluster.name}'`;
  if (patternFor(normalizeHost(host), hosts) === CATCH_ALL)
    return `'${host}' falls under '${CATCH_ALL}' of cluster '${cluster.name}'`;
  return `'${host}' is a ${protocol === 'connect' ? 'name' : 'host'} of cluster '${cluster.name}'`;
}
