// Routers of Traefik, from a file provider or from IngressRouteTCP objects, in one shape: rule, entry points, servers.

import type { ImportFinding, Place } from '../imported.ts';
import { listAt, type Path, recordAt, textAt, type YamlDocument } from './documents.ts';

export interface Router {
  readonly name: string;
  readonly rule: string;
  readonly protocol: 'tls' | 'http';
  readonly entryPoints: readonly string[];
  readonly priority: number | undefined;
  /** TLS is opened there. */
  readonly opensTls: boolean;
  readonly service: string;
  readonly servers: readonly { readonly address: string; readonly place: Place }[];
  readonly proxyProtocol: 'v1' | 'v2' | undefined;
  readonly allow: readonly string[] | undefined;
  readonly redirect: boolean;
  readonly place: Place;
}

type Add = (finding: ImportFinding) => void;

/** `tcp:` and `http:` of the file provider. */
export function fileRouters({ value, placeOf }: YamlDocument, add: Add): Router[] {
  return (['tcp', 'http'] as const).flatMap(part =>
    Object.entries(recordAt(value, part, 'routers')).map(([name, router]): Router => {
      const path: Path = [part, 'routers', name];
      const service = (textAt(router, 'service') ?? '').replace(/@.*$/, '');
      const balancer = recordAt(value, part, 'services', service, 'loadBalancer');
      const servers = listAt(balancer, 'servers').flatMap((server, i) => {
        const place = placeOf([part, 'services', service, 'loadBalancer', 'servers', i]);
        const address =
          part === 'tcp' ? textAt(server, 'address') : hostOfUrl(textAt(server, 'url'), place, add);
        return address === undefined ? [] : [{ address, place }];
      });
      if (servers.length === 0 && service !== '' && !service.includes('noop'))
        add({
          place: placeOf([part, 'services', service]),
          kind: 'not carried over',
          text: `service '${service}': it has no loadBalancer with servers`,
        });
      const middlewares = listAt(router, 'middlewares').map(one => String(one).replace(/@.*$/, ''));
      const known = recordAt(value, part, 'middlewares');
      const tls = recordAt(router, 'tls');
      const hasTls = 'tls' in recordAt(value, part, 'routers', name);
      return {
        name,
        rule: textAt(router, 'rule') ?? '',
        protocol: part === 'tcp' ? 'tls' : 'http',
        entryPoints: listAt(router, 'entryPoints').map(String),
        priority: priorityOf(router),
        opensTls: hasTls && tls.passthrough !== true,
        service,
        servers,
        proxyProtocol: versionOf(recordAt(balancer, 'proxyProtocol')),
        ...middlewaresOf(middlewares, known, placeOf([...path, 'middlewares']), add),
        place: placeOf([...path, 'rule']),
      };
    }),
  );
}

/** One object; others are not ours to read. `known` has MiddlewareTCP objects by namespace and name. */
export function objectRouters(
  { value, placeOf }: YamlDocument,
  base: Path,
  known: Readonly<Record<string, unknown>>,
  add: Add,
): Router[] {
  const object = base.reduce<unknown>(
    (inner, key) => (inner as Record<string | number, unknown>)[key],
    value,
  );
  const spec = recordAt(object, 'spec');
  const metadata = recordAt(object, 'metadata');
  const namespace = textAt(metadata, 'namespace') ?? 'default';
  const tls = recordAt(spec, 'tls');
  return listAt(spec, 'routes').map((route, i): Router => {
    const path: Path = [...base, 'spec', 'routes', i];
    const services = listAt(route, 'services');
    const servers = services.flatMap((service, s) => {
      const place = placeOf([...path, 'services', s]);
      const name = textAt(service, 'name');
      const port = textAt(service, 'port');
      if (name === undefined || port === undefined || !/^\d+$/.test(port)) {
        add({ place, kind: 'not carried over', text: `Service '${name ?? ''}': its port must be a number` });
        return [];
      }
      const where = textAt(service, 'namespace') ?? namespace;
      if ((textAt(service, 'weight') ?? '1') !== '1')
        add({ place, kind: 'not carried over', text: 'weight: backends of a route share equally' });
      return [{ address: `${name}.${where}.svc.cluster.local:${port}`, place }];
    });
    const middlewares = listAt(route, 'middlewares').map(
      one => `${textAt(one, 'namespace') ?? namespace}/${textAt(one, 'name') ?? ''}`,
    );
    return {
      name: `${namespace}/${textAt(metadata, 'name') ?? ''}`,
      rule: textAt(route, 'match') ?? '',
      protocol: 'tls',
      entryPoints: listAt(spec, 'entryPoints').map(String),
      priority: priorityOf(route),
      opensTls: 'tls' in spec && tls.passthrough !== true,
      service: services.map(service => textAt(service, 'name') ?? '').join('-'),
      servers,
      proxyProtocol: versionOf(recordAt(services[0], 'proxyProtocol')),
      ...middlewaresOf(middlewares, known, placeOf([...path, 'middlewares']), add),
      place: placeOf([...path, 'match']),
    };
  });
}

function priorityOf(router: unknown): number | undefined {
  const priority = Number(textAt(router, 'priority') ?? Number.NaN);
  return Number.isFinite(priority) && priority !== 0 ? priority : undefined;
}

function versionOf(proxyProtocol: Readonly<Record<string, unknown>>): 'v1' | 'v2' | undefined {
  const version = textAt(proxyProtocol, 'version');
  return version === '1' ? 'v1' : version === '2' ? 'v2' : undefined;
}

function middlewaresOf(
  names: readonly string[],
  known: Readonly<Record<string, unknown>>,
  place: Place,
  add: Add,
): Pick<Router, 'allow' | 'redirect'> {
  let allow: readonly string[] | undefined;
  let redirect = false;
  for (const name of names) {
    const middleware = recordAt(known, name);
    const list = [middleware.ipAllowList, middleware.ipWhiteList].find(one => one !== undefined);
    const scheme = recordAt(middleware, 'redirectScheme');
    if (list !== undefined) allow = listAt(list, 'sourceRange').map(String);
    else if (textAt(scheme, 'scheme') === 'https') redirect = true;
    else add({ place, kind: 'not carried over', text: `middleware '${name}'` });
  }
  return { allow, redirect };
}

function hostOfUrl(text: string | undefined, place: Place, add: Add): string | undefined {
  if (text === undefined || !URL.canParse(text)) return undefined;
  const { protocol, hostname, port } = new URL(text);
  if (protocol === 'http:') return `${hostname}:${port === '' ? 80 : port}`;
  add({ place, kind: 'not carried over', text: `'${text}': the gateway does not start TLS to backends` });
  return undefined;
}
