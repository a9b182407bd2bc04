// The admin API: checks for every request, in order, then the endpoints. A refusal is JSON with one sentence. To add an
// endpoint, add a line to `endpoints`.

import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Registry } from '@prometheus-io/client';
import { type Context, Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { Logger } from 'pino';
import type { AdminRole, AdminUser } from '../config/config.ts';
import { connectionFields } from '../gateway/control/connection-fields.ts';
import { type Explanation, QuestionError } from '../gateway/table/explain.ts';
import { type Question } from '../gateway/table/question.ts';
import { printableJson } from '../text/printable.ts';
import { hostOf, isOwnHost } from './admin-host.ts';
import { basicCredentials, refusedChange, roleOf } from './auth.ts';
import { type ClustersView, clusterAnswers, clusterNamed } from './clusters.ts';
import { dashboardFiles } from './dashboard.ts';
import { type EventStreams, MAX_STREAMS } from './event-streams.ts';
import { GuessLimit } from './guess-limit.ts';
import { type MetricsView, metricsRegistry, metricsText } from './metrics.ts';
import { QueryError, readConnectionsQuery, readExplainQuery } from './queries.ts';
import type { RecentTraffic } from './recent-traffic.ts';
import { type StatusAnswer, trafficOf } from './status.ts';
import { Turns } from './turns.ts';

export interface AdminApiOptions {
  /** Host values accepted besides IP literals and localhost. */
  readonly hosts: readonly string[];
  readonly auth: readonly AdminUser[];
  readonly log: Logger;
  /** Default: one that uses the system's clock. */
  readonly guesses?: GuessLimit;
}

export interface AdminView extends MetricsView, Omit<ClustersView, 'recent'> {
  readonly gateway: MetricsView['gateway'];
  readonly events: EventStreams;
  /** Why it is not ready, or undefined when it is. */
  notReady(): string | undefined;
  /** False until the gateway has started. */
  readonly started: boolean;
  /** Throws a QuestionError. */
  explain(question: Question): Explanation;
  /** Like SIGTERM. Resolves when all connections have ended. */
  drain(): Promise<void>;
}

interface Env {
  readonly Bindings: HttpBindings;
  readonly Variables: { readonly role: AdminRole };
}

export type AdminApi = Hono<Env>;
export type AdminContext = Context<Env>;
type Answer = Response | Promise<Response>;

interface Endpoint {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly answer: (context: AdminContext) => Answer;
  /** Cheap: answered at once instead of in turn. */
  readonly light?: true;
}

/** No endpoint reads a body; clients may send an empty object. */
const MAX_BODY = 64 * 1024;
/** Bytes that may wait for slow readers, in total. A large table is some 10 MiB of JSON. */
const MAX_WAITING = 64 * 1024 * 1024;

/** Headers of every answer. A page may set its own Content-Security-Policy. */
const headers = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** `waiting` is the number of bytes that clients have not read yet. */
export function adminApi(
  options: AdminApiOptions,
  view: AdminView,
  recent: RecentTraffic,
  waiting: () => number,
): AdminApi {
  const api: AdminApi = new Hono<Env>();
  api.use(async (context, next) => {
    for (const [name, value] of Object.entries(headers)) context.header(name, value);
    const host = context.req.header('Host');
    // A probe in HTTP/1.0, such as HAProxy's, sends no Host; a browser always does.
    return host === undefined || isOwnHost(host, options.hosts)
      ? next()
      : problem(context, 421, notOurs(host));
  });
  mount(api, probes(view));
  const guesses =
    options.guesses ?? new GuessLimit(address => options.log.warn({ address }, 'wrong passwords are slowed'));
  api.use(async (context, next) => {
    const role = await logIn(context, options.auth, guesses);
    if (typeof role !== 'string') return role;
    context.set('role', role);
    return next();
  });
  api.use(async (context, next) => {
    if (bodyLength(context) > MAX_BODY) return tooLarge(context);
    if (!view.started) return problem(context, 503, 'Causeway is starting; try again in a moment');
    await view.gateway.refresh?.();
    return next();
  });
  const turns = new Turns();
  mount(
    api,
    endpoints(view, recent).map(endpoint => inTurn(endpoint, waiting, turns)),
  );
  mount(
    api,
    dashboardFiles().map(file => ({ method: 'GET', ...file })),
  );
  api.notFound(context => problem(context, 404, `There is no ${context.req.path}`));
  api.onError((error, context) => {
    options.log.error({ err: error, path: context.req.path }, 'admin request failed');
    return problem(context, 500, 'The request failed; the log has the cause');
  });
  return api;
}

/** Without auth: probes come from machines that have no password. */
function probes(view: AdminView): Endpoint[] {
  return [
    { method: 'GET', path: '/healthz', answer: context => context.text('ok') },
    {
      method: 'GET',
      path: '/readyz',
      answer: context => {
        const reason = view.notReady();
        return reason === undefined ? context.text('ok') : context.text(reason, 503);
      },
    },
  ];
}

function endpoints(view: AdminView, recent: RecentTraffic): Endpoint[] {
  const registries = {
    text: metricsRegistry(view, Registry.PROMETHEUS_CONTENT_TYPE),
    openMetrics: metricsRegistry(view, Registry.OPENMETRICS_CONTENT_TYPE),
  };
  return [
    { method: 'GET', path: '/metrics', answer: context => metrics(context, registries) },
    {
      method: 'GET',
      path: '/api/v1/status',
      answer: context => {
        const traffic = trafficOf({ gateway: view.gateway, recent });
        return json(context, { ...view.status(), traffic } satisfies StatusAnswer);
      },
    },
    {
      method: 'GET',
      path: '/api/v1/clusters',
      answer: context => json(context, clusterAnswers(clustersView(view, recent))),
    },
    {
      method: 'GET',
      path: '/api/v1/clusters/:name',
      answer: context => cluster(context, clustersView(view, recent)),
    },
    { method: 'GET', path: '/api/v1/connections', answer: context => connections(context, view) },
    {
      method: 'DELETE',
      path: '/api/v1/connections/:id',
      answer: context => endConnection(context, view),
      light: true,
    },
    { method: 'GET', path: '/api/v1/events', answer: context => events(context, view.events), light: true },
    { method: 'GET', path: '/api/v1/explain', answer: context => explain(context, view) },
    { method: 'POST', path: '/api/v1/drain', answer: context => drain(context, view), light: true },
  ];
}

/** Expensive answers are made one at a time, and none while too many bytes wait for slow readers. */
function inTurn(endpoint: Endpoint, waiting: () => number, turns: Turns): Endpoint {
  if (endpoint.light) return endpoint;
  const answer = (context: AdminContext): Answer =>
    turns.take(() => {
      // The client is gone.
      if (context.env.outgoing.destroyed) return context.body(null, 503);
      if (waiting() <= MAX_WAITING) return endpoint.answer(context);
      return problem(context, 503, 'Too much waits for slow clients; try again in a moment');
    }) ?? problem(context, 503, 'Too many requests at a time; try again in a moment');
  return { ...endpoint, answer };
}

/** HEAD is answered like GET, without the body; OPTIONS lists the methods; any other method is 405. */
function mount(api: AdminApi, mounted: readonly Endpoint[]): void {
  for (const { method, path, answer } of mounted) {
    const allow = method === 'GET' ? 'GET, HEAD, OPTIONS' : `${method}, OPTIONS`;
    const check = method === 'GET' ? () => undefined : changeRefused;
    api.on(method, path, context => check(context) ?? answer(context));
    api.options(path, context => context.body(null, 204, { Allow: allow }));
    api.all(path, context => {
      context.header('Allow', allow);
      return problem(context, 405, `${context.req.path} supports only ${allow}`);
    });
  }
}

/** Printable: it contains names from elsewhere, and people read it in terminals. */
function json(context: AdminContext, value: object, status: ContentfulStatusCode = 200): Response {
  const text = printableJson(JSON.stringify(value));
  return context.body(text, status, { 'Content-Type': 'application/json' });
}

function problem(context: AdminContext, status: ContentfulStatusCode, text: string): Response {
  return json(context, { error: text }, status);
}

function notOurs(host: string): string {
  return `Host '${hostOf(host)}' is not one of this server's names; add it to admin.hosts`;
}

/** Without users every client is an admin: the admin side is then on loopback. */
async function logIn(
  context: AdminContext,
  users: readonly AdminUser[],
  guesses: GuessLimit,
): Promise<AdminRole | Response> {
  if (users.length === 0) return 'admin';
  const header = context.req.header('Authorization') ?? '';
  const given = basicCredentials(header);
  if (given === undefined) return unauthorized(context);
  const address = context.env.incoming.socket.remoteAddress ?? '';
  const waitMs = guesses.take(address, header);
  if (waitMs > 0) return tooManyGuesses(context, Math.ceil(waitMs / 1000));
  const role = await roleOf(users, given);
  if (role === undefined) return unauthorized(context);
  guesses.right(address, header);
  return role;
}

function tooManyGuesses(context: AdminContext, seconds: number): Response {
  context.header('Retry-After', String(seconds));
  return problem(context, 429, `Too many wrong passwords from this address; try again in ${seconds} s`);
}

function unauthorized(context: AdminContext): Response {
  context.header('WWW-Authenticate', 'Basic realm="causeway", charset="UTF-8"');
  return problem(context, 401, 'A user name and its password are needed');
}

function changeRefused(context: AdminContext): Response | undefined {
  const refused = refusedChange(context.get('role'), {
    contentType: context.req.header('Content-Type'),
    origin: context.req.header('Origin'),
    host: context.req.header('Host'),
  });
  return refused === undefined ? undefined : problem(context, refused.status, refused.text);
}

/** As declared. A chunked body is discarded unread, within the time limit of a request. */
function bodyLength(context: AdminContext): number {
  return Number(context.req.header('Content-Length') ?? 0);
}

function tooLarge(context: AdminContext): Response {
  context.header('Connection', 'close');
  return problem(context, 413, `The body of a request may have ${MAX_BODY} bytes`);
}

async function metrics(
  context: AdminContext,
  { text, openMetrics }: Readonly<Record<'text' | 'openMetrics', Registry>>,
): Promise<Response> {
  const wanted = context.req.header('Accept')?.includes('application/openmetrics-text') === true;
  const registry = wanted ? openMetrics : text;
  return context.body(await metricsText(registry), 200, { 'Content-Type': registry.contentType });
}

function clustersView({ plan, gateway }: AdminView, recent: RecentTraffic): ClustersView {
  return { plan, gateway, recent };
}

function cluster(context: AdminContext, view: ClustersView): Response {
  const name = context.req.param('name') ?? '';
  const found = clusterNamed(view, name);
  return found === undefined
    ? problem(context, 404, `There is no cluster '${name}'; /api/v1/clusters lists them`)
    : json(context, found);
}

async function connections(context: AdminContext, view: AdminView): Promise<Response> {
  return answerQuery(context, async () => {
    const { limit, cluster } = readConnectionsQuery(name => context.req.query(name));
    const open = await view.gateway.openConnections(limit, cluster);
    return open.map(one => ({ id: one.id, ...connectionFields(one) }));
  });
}

async function endConnection(context: AdminContext, view: AdminView): Promise<Response> {
  const id = context.req.param('id') ?? '';
  if (await view.gateway.endConnection(id)) return context.body(null, 204);
  return problem(context, 404, `No connection '${id}' is open; /api/v1/connections lists those that are`);
}

function events(context: AdminContext, streams: EventStreams): Response {
  if (context.req.method === 'HEAD') return context.body(null, 200, { 'Content-Type': 'text/event-stream' });
  return streams.open(context.env.outgoing as HttpBindings['outgoing'], headers)
    ? RESPONSE_ALREADY_SENT
    : problem(context, 503, `There are ${MAX_STREAMS} event streams already; close one of them`);
}

function explain(context: AdminContext, view: AdminView): Promise<Response> {
  return answerQuery(context, async () => view.explain(readExplainQuery(name => context.req.query(name))));
}

/** JSON, or 400 with the mistake in the query. */
async function answerQuery(context: AdminContext, answer: () => Promise<object>): Promise<Response> {
  try {
    return json(context, await answer());
  } catch (error) {
    if (error instanceof QueryError || error instanceof QuestionError)
      return problem(context, 400, error.message);
    throw error;
  }
}

function drain(context: AdminContext, view: AdminView): Response {
  // The command that runs the process also waits for the drain, and reports a failure.
  view.drain().catch(() => {});
  return json(context, { draining: true, connections: view.gateway.connections }, 202);
}
