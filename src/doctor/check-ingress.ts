// Objects for ingress controllers: are they there, and does the controller that reads them pass TLS through? Only where
// outputs write such objects, or somebody else's route the hosts of the cluster.

import type { Cluster } from '../cluster/cluster.ts';
import { type Config, DEFAULT_LEASE } from '../config/config.ts';
import { type KubeApi, wordsOf } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { type Resource, resource } from '../kube/resources.ts';
import { ingresses as ingressResource } from '../outputs/ingress.ts';
import { ingressRouteTcps } from '../outputs/ingress-route-tcp.ts';
import { newOutput, outputResources } from '../outputs/new-output.ts';
import type { DesiredObject } from '../outputs/output.ts';
import type { Report } from './check.ts';

interface Ingress extends KubeObject {
  readonly spec?: {
    readonly ingressClassName?: string;
    readonly rules?: readonly { readonly host?: string }[];
  };
}
interface IngressClass extends KubeObject {
  readonly spec?: { readonly controller?: string };
}
interface Workload extends KubeObject {
  readonly spec?: {
    readonly template?: {
      readonly spec?: {
        readonly containers?: readonly {
          readonly image?: string;
          readonly args?: readonly string[];
          readonly command?: readonly string[];
        }[];
      };
    };
  };
}
const ingresses = ingressResource as Resource<Ingress>;
const ingressClasses: Resource<IngressClass> = resource(
  'networking.k8s.io/v1',
  'ingressclasses',
  'IngressClass',
);
const deployments: Resource<Workload> = resource('apps/v1', 'deployments', 'Deployment');
const daemonSets: Resource<Workload> = resource('apps/v1', 'daemonsets', 'DaemonSet');

const CLASS_ANNOTATION = 'kubernetes.io/ingress.class';
/** The outputs whose objects are read by an ingress controller. */
const KINDS: ReadonlySet<string> = new Set(['ingress', 'ingressRouteTCP', 'tlsRoute', 'transportServer']);

interface Controller {
  readonly title: string;
  /** Of IngressClass.spec.controller. */
  readonly matches: RegExp;
  /** The annotation that passes TLS through; undefined where an Ingress cannot. */
  readonly annotation: readonly [name: string, value: string] | undefined;
}
const controllers: readonly Controller[] = [
  { title: 'HAProxy', matches: /^haproxy\.org\//, annotation: ['haproxy.org/ssl-passthrough', 'true'] },
  {
    title: 'haproxy-ingress',
    matches: /^haproxy-ingress\.github\.io\//,
    annotation: ['haproxy-ingress.github.io/ssl-passthrough', 'true'],
  },
  {
    title: 'ingress-nginx',
    matches: /^k8s\.io\/ingress-nginx/,
    annotation: ['nginx.ingress.kubernetes.io/ssl-passthrough', 'true'],
  },
  { title: 'Cilium', matches: /^cilium\.io\//, annotation: ['ingress.cilium.io/tls-passthrough', 'enabled'] },
  { title: 'Traefik', matches: /^traefik\.io\//, annotation: undefined },
];

export async function checkIngress(
  cluster: Cluster,
  { outputs, lease }: Pick<Config, 'outputs' | 'lease'>,
  api: KubeApi | undefined,
  report: Report,
): Promise<void> {
  const wanted = outputs.filter(({ kind }) => KINDS.has(kind));
  if (api === undefined) {
    if (wanted.length > 0) report.skip('ingress', 'give --kubeconfig F to look at its objects');
    return;
  }
  const namespace = cluster.origin.object?.namespace;
  const context = { leaseNamespace: (lease ?? DEFAULT_LEASE).namespace };
  const plan = { clusters: [cluster], findings: [], counts: { clusters: 1, routes: 0, hosts: 0 } };
  const outcomes = wanted.flatMap(settings => newOutput(settings, context)?.desired(plan) ?? []);
  const desired = outcomes.flatMap(({ objects }) => objects);
  const before = report.checks.length;
  for (const { severity, code, text, fix } of outcomes.flatMap(({ findings }) => findings)) {
    if (severity === 'error') report.fail('ingress', code, text, fix);
    else if (severity === 'warning') report.warn('ingress', code, text, fix);
  }
  const found: { readonly resource: Resource<KubeObject>; readonly object: KubeObject }[] = [];
  for (const one of desired) {
    const object = await read(api, one, report);
    if (object !== undefined) found.push({ resource: one.resource, object });
  }
  for (const ingress of await foreign(api, cluster, namespace)) {
    const isKnown = found.some(({ object }) => object.metadata.uid === ingress.metadata.uid);
    if (!isKnown) found.push({ resource: ingresses, object: ingress });
  }
  if (found.length === 0 && report.checks.length === before) {
    return report.skip('ingress', 'no ingress controller has an object for this cluster');
  }
  for (const { resource: of, object } of found) {
    const refusal = outputResources.find(({ plural }) => plural === of.plural)?.refusalOf?.(object);
    if (refusal !== undefined) {
      report.fail('ingress', 'OutputRejected', `${of.kind} ${nameOf(object)}: ${refusal.text}`, refusal.fix);
    }
    if (of.plural === ingresses.plural) await checkOneIngress(api, object as Ingress, report);
    if (of.plural === ingressRouteTcps.plural) await checkEntryPoints(api, object, report);
  }
  if (report.checks.length === before) {
    report.ok(
      'ingress',
      found
        .map(({ object }) => `${object.kind} ${nameOf(object)}`)
        .slice(0, 4)
        .join(', '),
    );
  }
}

async function read(
  api: KubeApi,
  { resource: of, object }: DesiredObject,
  report: Report,
): Promise<KubeObject | undefined> {
  const { namespace, name } = object.metadata;
  const answer = await api.get(of, namespace, name);
  if (answer.ok) return { ...answer.value, kind: of.kind };
  const what = `${of.kind} ${nameOf(object)}`;
  if (answer.fault.status !== 404) {
    report.skip('ingress', `${what} cannot be read: ${wordsOf(answer.fault)}`);
    return undefined;
  }
  const fix =
    'Causeway writes it while it has the lease: look at the findings (causeway status); for a missing definition, install the controller';
  report.fail(
    'ingress',
    'ObjectMissing',
    `${what} does not exist, so that the controller does not route this cluster`,
    fix,
  );
  return undefined;
}

/** Of an operator or a person, in the namespace of the cluster. */
async function foreign(
  api: KubeApi,
  { routes }: Cluster,
  namespace: string | undefined,
): Promise<readonly Ingress[]> {
  if (namespace === undefined) return [];
  const hosts = new Set(routes.flatMap(route => route.hosts));
  const listed = await api.list(ingresses, { namespace });
  if (!listed.ok) return [];
  return listed.value.items.filter(({ spec }) =>
    spec?.rules?.some(({ host }) => host !== undefined && hosts.has(host)),
  );
}

async function checkOneIngress(api: KubeApi, ingress: Ingress, report: Report): Promise<void> {
  const { metadata, spec } = ingress;
  const className = spec?.ingressClassName ?? metadata.annotations?.[CLASS_ANNOTATION];
  const what = `Ingress ${nameOf(ingress)}`;
  if (className === undefined) return;
  const found = await api.get(ingressClasses, undefined, className);
  if (!found.ok) {
    if (found.fault.status !== 404)
      return report.skip('ingress', `IngressClass ${className}: ${wordsOf(found.fault)}`);
    const text = `${what} has the class '${className}', and there is no such IngressClass: no controller reads it`;
    const fix =
      'Install the controller, or set className of the output ingress to a class from kubectl get ingressclass';
    return report.fail('ingress', 'IngressClassMissing', text, fix);
  }
  const { controller = '' } = found.value.spec ?? {};
  const known = controllers.find(({ matches }) => matches.test(controller));
  if (known === undefined) return;
  if (known.annotation === undefined) {
    const text = `${what} is read by ${known.title}, which passes no TLS through for an Ingress`;
    return report.fail(
      'ingress',
      'PassthroughMissing',
      text,
      'Use the output ingressRouteTCP instead of ingress',
    );
  }
  const [name, value] = known.annotation;
  if (metadata.annotations?.[name] !== value) {
    const text = `${what} is read by ${known.title} and has no annotation ${name}: "${value}", so that TLS ends at the controller`;
    const fix = `Set flavor of the output ingress for ${known.title}, or where somebody else writes the object: kubectl annotate ingress --namespace ${metadata.namespace} ${metadata.name} ${name}=${value}`;
    report.fail('ingress', 'PassthroughMissing', text, fix);
  }
  if (known.title === 'ingress-nginx') await checkNginxFlag(api, report);
}

async function checkNginxFlag(api: KubeApi, report: Report): Promise<void> {
  const args = await argumentsOf(
    api,
    /ingress-nginx/,
    'app.kubernetes.io/name=ingress-nginx,app.kubernetes.io/component=controller',
  );
  if (args === undefined)
    return report.skip(
      'ingress',
      'the Deployment of ingress-nginx was not found, so its flags are not known',
    );
  const flag = args.findLast(arg => /^--enable-ssl-passthrough(=|$)/.test(arg));
  if (flag === '--enable-ssl-passthrough' || flag === '--enable-ssl-passthrough=true') return;
  const text =
    'ingress-nginx runs without --enable-ssl-passthrough: it ignores the annotation and ends TLS itself';
  const fix = 'Helm: controller.extraArgs.enable-ssl-passthrough: "true"';
  report.fail('ingress', 'SslPassthroughOff', text, fix);
}

async function checkEntryPoints(api: KubeApi, object: KubeObject, report: Report): Promise<void> {
  const { entryPoints = [] } = (object as { spec?: { entryPoints?: readonly string[] } }).spec ?? {};
  if (entryPoints.length === 0) return;
  const args = await argumentsOf(api, /(^|\/)traefik(:|@|$)/, 'app.kubernetes.io/name=traefik');
  if (args === undefined)
    return report.skip(
      'ingress',
      'the Deployment of Traefik was not found, so its entry points are not known',
    );
  const known = new Set(
    args.flatMap(arg => /^--entry-?points\.([^.=]+)[.=]/i.exec(arg)?.[1].toLowerCase() ?? []),
  );
  // Entry points may be in a file instead.
  if (known.size === 0) return;
  const missing = entryPoints.filter(name => !known.has(name.toLowerCase()));
  if (missing.length === 0) return;
  const text = `IngressRouteTCP ${nameOf(object)} names the entry point ${missing.map(name => `'${name}'`).join(', ')}, which Traefik does not have; it has ${[...known].join(', ')}`;
  const fix =
    'Add the entry point to Traefik (Helm: ports), or set entryPoints of the output ingressRouteTCP';
  report.fail('ingress', 'EntryPointMissing', text, fix);
}

/** Of the first container that looks like the controller; undefined where there is none. */
async function argumentsOf(
  api: KubeApi,
  image: RegExp,
  labelSelector: string,
): Promise<readonly string[] | undefined> {
  for (const kind of [deployments, daemonSets]) {
    const listed = await api.list(kind, { labelSelector });
    for (const { spec } of listed.ok ? listed.value.items : []) {
      const containers = spec?.template?.spec?.containers ?? [];
      const container = containers.find(one => image.test(one.image ?? '')) ?? containers[0];
      if (container !== undefined) return [...(container.command ?? []), ...(container.args ?? [])];
    }
  }
  return undefined;
}

function nameOf({ metadata: { namespace, name } }: KubeObject): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}
