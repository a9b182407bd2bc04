// Answers a request to an API server from the cluster's state: discovery, lists, single objects, watches, logs. Pure;
// api-server.ts does the I/O.

import { type ApiStatus, apiStatus, type StatusReason } from './api-status.ts';
import type { ClusterState } from './cluster-state.ts';
import { discover, SELF_SUBJECT_REVIEW } from './discovery.ts';
import { type KubeObject, valueAt } from './kube-object.ts';
import { groupVersion, type Resource, resources } from './resources.ts';
import { parseFieldSelector, parseLabelSelector, type Selector } from './selector.ts';
import { toTable, wantsTable } from './table.ts';

export interface ApiRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly accept: string;
  /** Undefined without a valid certificate or token. */
  readonly user: ApiUser | undefined;
}

export interface ApiUser {
  readonly name: string;
  readonly groups: readonly string[];
}

export type ApiAnswer =
  | { readonly kind: 'object'; readonly code: number; readonly body: object }
  | { readonly kind: 'text'; readonly text: string }
  | Watch
  | Log;

export interface Watch {
  readonly kind: 'watch';
  readonly resource: Resource;
  readonly selects: Selector;
  readonly asTable: boolean;
  /** Sends everything after this version; undefined means to start with the existing objects. */
  readonly from: number | undefined;
  readonly timeoutMs: number;
}

export interface Log {
  readonly kind: 'log';
  readonly pod: string;
  readonly follow: boolean;
  /** The number of past lines. */
  readonly lines: number;
}

/** Paths that an API server shows to anyone (system:public-info-viewer). */
const PUBLIC = ['/version', '/healthz', '/livez', '/readyz'];
/** A real API server uses 30 minutes to an hour. */
const WATCH_MS = 30 * 60 * 1000;
const PAST_LINES = 5;

const PATH =
  /^\/(?:api|apis\/(?<group>[^/]+))\/(?<version>[^/]+)(?:\/namespaces\/(?<namespace>[^/]+)(?=\/))?\/(?<name>[^/]+)(?:\/(?<object>[^/]+)(?:\/(?<part>[^/]+))?)?$/;

export function answerRequest(
  cluster: string,
  state: ClusterState,
  request: ApiRequest,
  now: number,
): ApiAnswer {
  const { method, path, user } = request;
  if (user === undefined && !PUBLIC.includes(path)) return refusal('Unauthorized', 'Unauthorized');
  if (/^\/(healthz|livez|readyz)(\/|$)/.test(path)) return { kind: 'text', text: 'ok' };
  if (user !== undefined && method === 'POST' && path === reviewPath()) return whoAmI(user);
  if (method !== 'GET') {
    return refusal('MethodNotAllowed', 'This API server is a stand-in of causeway demo and is read-only');
  }
  const known = discover(path, cluster);
  if (known !== undefined) return { kind: 'object', code: 200, body: known };
  return answerForResource(state, request, now) ?? refusal('NotFound', notFoundText());
}

function answerForResource(state: ClusterState, request: ApiRequest, now: number): ApiAnswer | undefined {
  const { group = '', version, namespace, name, object, part } = PATH.exec(request.path)?.groups ?? {};
  const resource = resources.find(one => one.group === group && one.version === version && one.name === name);
  if (resource === undefined || (namespace !== undefined && !resource.namespaced)) return undefined;
  if (object === undefined) return answerForMany(state, resource, namespace, request, now);
  // The path of a namespaced object must contain a namespace.
  if (resource.namespaced && namespace === undefined) return undefined;
  const one = state.get(resource.name, namespace, object);
  if (one === undefined) return missing(resource, object);
  if (part === undefined) return single(state, resource, one, request, now);
  return part === 'log' && resource.name === 'pods' ? logOf(one, request.query) : undefined;
}

function answerForMany(
  state: ClusterState,
  resource: Resource,
  namespace: string | undefined,
  { query, accept }: ApiRequest,
  now: number,
): ApiAnswer {
  const labels = parseLabelSelector(query.get('labelSelector'));
  const fields = parseFieldSelector(query.get('fieldSelector'));
  if ('unclear' in labels) return unclearSelector(labels.unclear);
  if ('unclear' in fields) return unclearSelector(fields.unclear);
  const selects = (one: KubeObject) =>
    (namespace === undefined || one.metadata.namespace === namespace) &&
    labels.selects(one) &&
    fields.selects(one);
  const asTable = wantsTable(accept);
  if (isTrue(query.get('watch'))) {
    const asked = query.get('resourceVersion') ?? '';
    const seconds = Number(query.get('timeoutSeconds') ?? 0);
    const from = asked === '' || asked === '0' ? undefined : Number(asked);
    const timeoutMs = seconds > 0 ? Math.min(seconds * 1000, WATCH_MS) : WATCH_MS;
    return { kind: 'watch', resource, selects, asTable, from, timeoutMs };
  }
  const objects = state.list(resource.name).filter(selects);
  const resourceVersion = String(state.version);
  const list = {
    kind: `${resource.kind}List`,
    apiVersion: groupVersion(resource),
    metadata: { resourceVersion },
    items: objects,
  };
  const body = asTable ? toTable(resource, objects, resourceVersion, now) : list;
  return { kind: 'object', code: 200, body };
}

function single(
  state: ClusterState,
  resource: Resource,
  object: KubeObject,
  { accept }: ApiRequest,
  now: number,
): ApiAnswer {
  const body = wantsTable(accept) ? toTable(resource, [object], String(state.version), now) : object;
  return { kind: 'object', code: 200, body };
}

function logOf(pod: KubeObject, query: URLSearchParams): ApiAnswer {
  if (valueAt(pod, 'status.phase') === 'Pending') {
    return refusal('BadRequest', `the container of pod "${pod.metadata.name}" has not started yet`);
  }
  const tail = Number(query.get('tailLines') ?? PAST_LINES);
  const lines = Number.isInteger(tail) && tail >= 0 ? Math.min(tail, PAST_LINES) : PAST_LINES;
  return { kind: 'log', pod: pod.metadata.name, follow: isTrue(query.get('follow')), lines };
}

function whoAmI({ name, groups }: ApiUser): ApiAnswer {
  const body = {
    kind: 'SelfSubjectReview',
    apiVersion: groupVersion(SELF_SUBJECT_REVIEW),
    metadata: {},
    status: { userInfo: { username: name, groups } },
  };
  return { kind: 'object', code: 201, body };
}

function reviewPath(): string {
  return `/apis/${groupVersion(SELF_SUBJECT_REVIEW)}/${SELF_SUBJECT_REVIEW.name}`;
}

function missing({ name, group }: Resource, object: string): ApiAnswer {
  const text = `${group === '' ? name : `${name}.${group}`} "${object}" not found`;
  return refusal('NotFound', text, { name: object, kind: name, ...(group !== '' && { group }) });
}

function unclearSelector(part: string): ApiAnswer {
  return refusal(
    'BadRequest',
    `Cannot select by '${part}': this stand-in supports key=value, key!=value and key`,
  );
}

function notFoundText(): string {
  return 'the server could not find the requested resource';
}

function refusal(reason: StatusReason, message: string, details?: object): ApiAnswer {
  const body: ApiStatus = apiStatus(reason, message, details);
  return { kind: 'object', code: body.code, body };
}

/** As Go reads a boolean parameter. */
function isTrue(text: string | null): boolean {
  return text !== null && text !== 'false' && text !== '0';
}
