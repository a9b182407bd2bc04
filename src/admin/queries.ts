// Parses and checks query strings. An empty value counts as none, so that a form can send all its fields. Mistakes are
// thrown as a QueryError.

import type { Question } from '../gateway/table/question.ts';
import { questionProtocols } from '../gateway/table/question.ts';
import { questionTarget } from '../gateway/table/question-target.ts';

const DEFAULT_CONNECTIONS = 100;
const MAX_CONNECTIONS = 10_000;

/** Answered with 400 and its message. */
export class QueryError extends Error {
  readonly code = 'ERR_QUERY';
}

type Query = (name: string) => string | undefined;

export function readConnectionsQuery(query: Query): { limit: number; cluster: string | undefined } {
  const limit = query('limit') || String(DEFAULT_CONNECTIONS);
  const count = /^\d{1,9}$/.test(limit) ? Number(limit) : 0;
  if (count < 1 || count > MAX_CONNECTIONS) {
    throw new QueryError(`limit must be a number from 1 to ${MAX_CONNECTIONS}: current value is '${limit}'`);
  }
  return { limit: count, cluster: query('cluster') || undefined };
}

export function readExplainQuery(query: Query): Question {
  const [host, from, id, on] = ['host', 'from', 'id', 'on'].map(name => query(name) || undefined);
  const given = query('protocol') || undefined;
  const protocol = questionProtocols.find(known => known === given);
  const port = query('port') || undefined;
  if (given !== undefined && protocol === undefined) {
    throw new QueryError(
      `protocol must be one of ${questionProtocols.join(', ')}: current value is '${given}'`,
    );
  }
  if (host === undefined && id === undefined) {
    throw new QueryError('Name a host to be explained: ?host=api.example.com');
  }
  if (port !== undefined && !/^\d{1,5}$/.test(port)) {
    throw new QueryError(`port must be a number from 0 to 65535: current value is '${port}'`);
  }
  const target = questionTarget(host ?? '', protocol);
  if (id !== undefined && target.protocol !== 'tls') {
    throw new QueryError(
      'id is the id in a PROXY header, which TLS follows; for CONNECT give the id as host',
    );
  }
  return {
    ...target,
    ...(port !== undefined && { port: Number(port) }),
    ...(from !== undefined && { from }),
    ...(id !== undefined && { id }),
    ...(on !== undefined && { on }),
  };
}
