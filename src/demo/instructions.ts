// What the demo prints: where everything is, and commands that work as pasted. Comments are on their own lines, because
// not every shell accepts one after a command.

import type { Demo, DemoTenant } from './demo.ts';
import { type DemoCluster, helloHost } from './demo-clusters.ts';
import { AGENTS_LOG_FILE, CONFIG_FILE, clusterFiles, LOG_FILE } from './demo-files.ts';

export interface Surroundings {
  readonly kubectl: boolean;
  /** The environment sets an HTTP proxy, which curl would use. */
  readonly proxied: boolean;
  /** Wraps text in a colour, if colours are on. */
  readonly paint: (code: string, text: string) => string;
}

interface Group {
  readonly title: string;
  readonly about: string;
  readonly lines: readonly string[];
}

const BOLD = '1';
const DIM = '2';
const HEADING = '1;36';

type Described = Pick<Demo, 'gateway' | 'adminUrl' | 'tenants' | 'folder'>;

export function instructions(demo: Described, surroundings: Surroundings): string {
  const { paint } = surroundings;
  const { gateway, adminUrl, tenants, folder } = demo;
  const facts: [string, string][] = [
    ['Gateway', `${gateway.host}:${gateway.port}, one port for everything below`],
    ['Dashboard', `${adminUrl}/`],
    ['Clusters', tenants.map(({ cluster }) => cluster.name).join(', ')],
    ['Agents', tenants.map(({ cluster }) => `${cluster.name} by ${uplinkText(cluster)}`).join('; ')],
    ['File', `${folder.typed(CONFIG_FILE)}; edit it, and see it applied in the log`],
    ['Logs', `tail -f ${folder.typed(LOG_FILE)} ${folder.typed(AGENTS_LOG_FILE)}`],
  ];
  const width = Math.max(...facts.map(([name]) => name.length));
  const groups = [
    ...(surroundings.kubectl ? [kubectlGroup(demo)] : []),
    apiGroup(demo, surroundings),
    appsGroup(demo, surroundings),
    browserGroup(demo),
    agentGroup(demo, surroundings),
    ...(surroundings.kubectl ? [agentKubectlGroup(demo)] : []),
    connectGroup(demo),
    refusalGroup(demo, surroundings),
  ];
  return [
    '',
    `  ${paint(BOLD, 'Causeway demo: three Kubernetes clusters behind one address')}`,
    '',
    ...facts.map(([name, text]) => `  ${paint(DIM, name.padEnd(width))}  ${text}`),
    ...groups.flatMap(({ title, about, lines }) => [
      '',
      `  ${paint(HEADING, title)}  ${paint(DIM, about)}`,
      ...lines.map(line => `    ${line}`),
    ]),
    '',
    `  ${paint(BOLD, 'Press Ctrl-C to end.')} ${paint(DIM, `This also removes the clusters and ./demo-out.`)}`,
    '',
    '',
  ].join('\n');
}

function kubectlGroup({ tenants, folder }: Described): Group {
  const line = ({ cluster }: DemoTenant, args: string) =>
    `kubectl --kubeconfig ${folder.typed(clusterFiles.kubeconfig(cluster))} ${args}`;
  const [hub, managed1, managed2] = tenants;
  return {
    title: 'kubectl',
    about: 'by server name; the client certificate reaches the cluster untouched',
    lines: [
      line(hub, 'get nodes'),
      line(managed1, 'get pods -A -o wide'),
      line(managed2, 'version'),
      line(managed1, 'get pods --watch'),
    ],
  };
}

function apiGroup({ tenants, folder, gateway }: Described, surroundings: Surroundings): Group {
  const [, managed1] = tenants;
  const curl = curlTo(gateway.port, surroundings);
  const url = ({ cluster }: DemoTenant, path: string) => `https://${cluster.apiHost}:${gateway.port}${path}`;
  const ca = ({ cluster }: DemoTenant) => `--cacert ${folder.typed(clusterFiles.ca(cluster))}`;
  const certificate = folder.typed(clusterFiles.clientCertificate(managed1.cluster));
  const key = folder.typed(clusterFiles.clientKey(managed1.cluster));
  return {
    title: 'API servers',
    about: 'by server name, each with a certificate from its own CA; run one twice to reach both servers',
    lines: [
      ...tenants.map(tenant => `${curl} ${ca(tenant)} ${url(tenant, '/version')}`),
      `${curl} ${ca(managed1)} --cert ${certificate} --key ${key} ${url(managed1, '/api/v1/nodes')}`,
    ],
  };
}

function appsGroup({ tenants, folder, gateway }: Described, surroundings: Surroundings): Group {
  const curl = curlTo(gateway.port, surroundings);
  const [, managed1, managed2] = tenants;
  const https = ({ cluster }: DemoTenant) =>
    `${curl} --cacert ${folder.typed(clusterFiles.ca(cluster))} https://${helloHost(cluster)}:${gateway.port}/`;
  const http = ({ cluster }: DemoTenant) => `${curl} http://${helloHost(cluster)}:${gateway.port}/`;
  return {
    title: 'Applications',
    about: 'https by wildcard server name and http by Host, on the same port',
    lines: [https(managed1), http(managed1), http(managed2)],
  };
}

function browserGroup({ tenants, gateway }: Described): Group {
  return {
    title: 'Browser',
    about:
      'each page counts over a WebSocket; https shows a warning, because no browser trusts the demo’s CA',
    lines: tenants.flatMap(({ cluster }) =>
      ['http', 'https'].map(scheme => `${scheme}://${helloHost(cluster)}:${gateway.port}/`),
    ),
  };
}

function agentGroup({ tenants, folder }: Described, { proxied }: Surroundings): Group {
  const curl = `curl -sS${proxied ? " --noproxy '*'" : ''}`;
  const ca = ({ cluster }: DemoTenant) => `--cacert ${folder.typed(clusterFiles.ca(cluster))}`;
  const url = ({ agent }: DemoTenant, path: string) => `https://${agent.host}:${agent.port}${path}`;
  const [, managed1] = tenants;
  const token = `-H "Authorization: Bearer $(cat ${folder.typed(clusterFiles.token(managed1.cluster))})"`;
  return {
    title: 'No server name',
    about: "as when a pod dials kubernetes.default.svc: its cluster's agent sends the gateway the cluster id",
    lines: [
      ...tenants.map(tenant => `${curl} ${ca(tenant)} ${url(tenant, '/version')}`),
      `${curl} ${ca(managed1)} ${token} ${url(managed1, '/api/v1/nodes')}`,
    ],
  };
}

function agentKubectlGroup({ tenants, folder }: Described): Group {
  const [, ...signed] = tenants;
  return {
    title: 'kubectl in a pod',
    about: 'to an agent, by IP address only; the client certificate still reaches the cluster',
    lines: signed.map(
      ({ cluster }) =>
        `kubectl --kubeconfig ${folder.typed(clusterFiles.agentKubeconfig(cluster))} get nodes`,
    ),
  };
}

function connectGroup({ tenants, folder, gateway }: Described): Group {
  const [{ cluster }] = tenants;
  const proxy = `-x http://${gateway.host}:${gateway.port}`;
  const ca = `--cacert ${folder.typed(clusterFiles.ca(cluster))}`;
  return {
    title: 'CONNECT',
    about: 'as an agent that cannot sign would; the other clusters require signed ids',
    lines: [`curl -sS ${proxy} ${ca} https://${cluster.apiHost}:${gateway.port}/version`],
  };
}

function refusalGroup({ gateway }: Described, surroundings: Surroundings): Group {
  return {
    title: 'Refused',
    about: 'an unknown name gets a TLS alert, not silence; the dashboard and the log show why',
    lines: [`${curlTo(gateway.port, surroundings)} -k https://api.nobody.causeway.test:${gateway.port}/`],
  };
}

function uplinkText({ uplink, isSigned }: DemoCluster): string {
  return isSigned ? `${uplink}, signed` : uplink;
}

/** `--resolve` replaces the DNS records that would point every name to the gateway. */
function curlTo(port: number, { proxied }: Surroundings): string {
  return `curl -sS${proxied ? " --noproxy '*'" : ''} --resolve '*:${port}:127.0.0.1'`;
}
