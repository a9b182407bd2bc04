// The page that every cluster's ingress serves: its cluster and backend, how the request arrived, a counter driven by
// a WebSocket, and links to the other clusters. Self-contained; supports light and dark mode.

import { type DemoCluster, demoClusters, helloHost } from './demo-clusters.ts';

export interface PageFacts {
  readonly cluster: DemoCluster;
  readonly backend: string;
  /** The Host header as sent. */
  readonly host: string;
  readonly protocol: 'http' | 'https';
  /** The client's address, if the gateway sent it. */
  readonly forwardedFor: string | undefined;
}

/** The Content-Security-Policy: nothing from other origins, and nothing injected through a Host header. */
export const PAGE_POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self' ws: wss:; base-uri 'none'";

export function helloPage(page: PageFacts): string {
  const { cluster, host } = page;
  const facts = factsOf(page);
  const port = /:(\d+)$/.exec(host)?.[0] ?? '';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(cluster.name)} · Causeway demo</title>
<style>${style(cluster.hue)}</style>
</head>
<body>
<main>
  <p class="kicker">You have reached</p>
  <h1>${escapeHtml(cluster.name)}</h1>
  <dl>
${facts.map(([name, value]) => `    <dt>${name}</dt><dd>${escapeHtml(value)}</dd>`).join('\n')}
    <dt>WebSocket</dt><dd id="tick" aria-live="off">not connected</dd>
  </dl>
  <nav aria-label="Clusters">
${demoClusters.map(other => `    ${links(other, port, other.name === cluster.name)}`).join('\n')}
  </nav>
  <footer>One address, one port, three clusters. Your browser asked for <b>${escapeHtml(host)}</b>; only the name selected the cluster.</footer>
</main>
<script>${SCRIPT}</script>
</body>
</html>
`;
}

/** The same as text, for clients that do not accept HTML, such as curl. */
export function helloText(page: PageFacts): string {
  const lines = factsOf(page).map(([name, value]) => `  ${name.toLowerCase().padEnd(8)} ${value}\n`);
  return `You have reached ${page.cluster.name}\n${lines.join('')}`;
}

function factsOf({ backend, host, protocol, forwardedFor }: PageFacts): [string, string][] {
  const how =
    protocol === 'https'
      ? 'TLS, end to end: the certificate is this cluster’s own'
      : 'cleartext HTTP, routed by its Host header';
  return [
    ['Backend', backend],
    ['Host', host],
    ['Via', how],
    ...(forwardedFor === undefined ? [] : [['Client', forwardedFor] as [string, string]]),
  ];
}

export function escapeHtml(text: string): string {
  const entities: Record<string, string> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  return text.replace(/[&<>"']/g, char => entities[char]);
}

function links(cluster: DemoCluster, port: string, here: boolean): string {
  const link = (scheme: string) => `<a href="${scheme}://${helloHost(cluster)}${port}/">${scheme}</a>`;
  return `<span${here ? ' class="here"' : ''} style="--hue: ${cluster.hue}"><b>${escapeHtml(cluster.name)}</b> ${link('https')} ${link('http')}</span>`;
}

const SCRIPT = `
const shown = document.getElementById('tick');
const connect = () => {
  const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + '/ticks');
  socket.onmessage = ({ data }) => { shown.textContent = data; shown.className = 'live'; };
  socket.onclose = () => { shown.textContent = 'closed; reconnecting'; shown.className = ''; setTimeout(connect, 1000); };
};
connect();
`;

function style(hue: number): string {
  return `
:root { color-scheme: light dark; --hue: ${hue}; }
* { box-sizing: border-box; }
body {
  margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 24px;
  font: 16px/1.5 system-ui, sans-serif;
  color: light-dark(#1b2230, #e8ecf4);
  background: linear-gradient(160deg, hsl(var(--hue) 70% 92%), hsl(var(--hue) 55% 80%));
}
main {
  width: min(640px, 100%); padding: 40px; border-radius: 20px;
  background: light-dark(#fff, #161b26);
  border-top: 8px solid hsl(var(--hue) 65% 48%);
  box-shadow: 0 24px 60px rgb(0 0 0 / 18%);
}
.kicker { margin: 0; color: light-dark(#5b6577, #9aa6bb); }
h1 { margin: 0 0 24px; font-size: clamp(40px, 10vw, 64px); line-height: 1.1; letter-spacing: -0.02em; color: light-dark(hsl(var(--hue) 65% 38%), hsl(var(--hue) 65% 68%)); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 8px 24px; margin: 0; }
dt { color: light-dark(#5b6577, #9aa6bb); }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.live::before { content: ''; display: inline-block; width: 10px; height: 10px; margin-right: 8px; border-radius: 50%; background: #22a06b; }
nav { display: flex; flex-wrap: wrap; gap: 10px; margin: 32px 0 0; }
nav span { padding: 8px 14px; border-radius: 12px; border: 1px solid light-dark(hsl(var(--hue) 40% 80%), hsl(var(--hue) 40% 35%)); }
nav .here { background: light-dark(hsl(var(--hue) 60% 95%), hsl(var(--hue) 40% 18%)); }
nav a { margin-left: 8px; color: light-dark(hsl(var(--hue) 65% 32%), hsl(var(--hue) 65% 72%)); }
footer { margin-top: 28px; font-size: 14px; color: light-dark(#5b6577, #9aa6bb); }
@media (prefers-color-scheme: dark) { body { background: linear-gradient(160deg, hsl(var(--hue) 40% 16%), hsl(var(--hue) 45% 9%)); } }
`;
}
