// Lines that no other part has read: each is listed as not carried over, together with those of its kind. Settings that
// mean the same here or need nothing are the only ones left out of the list.

import type { ImportFinding, Place } from '../imported.ts';
import type { Section } from './sections.ts';
import type { Line } from './tokenize.ts';

/** Read elsewhere, or the same here by default. */
const READ =
  /^(?:mode|bind|acl|use_backend|default_backend|server|server-template|default-server|balance|hash-type|retries|description|id|guid|enabled|timeout (?:connect|client|server|tunnel|client-fin|server-fin|check)|(?:no )?option (?:ssl-hello-chk|httpchk|tcp-check|forwardfor|forwarded|redispatch|tcpka|clitcpka|srvtcpka|http-keep-alive|http-server-close|httpclose|splice-\w+|tcp-smart-\w+|contstats|abortonclose|socket-stats)|redispatch|(?:cli|srv)tcpka-\w+|http-check (?:send|connect)|tcp-check connect|tcp-request inspect-delay|tcp-request connection expect-proxy|http-send-name-header|http-request set-header X-Forwarded-\S+|http-reuse|external-check|stats auth)(?: |$)/i;

/** The same reason is one finding. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [
    /^(?:no )?(?:log|log-format|log-format-sd|log-tag|log-steps|unique-id-\w+|option (?:tcplog|httplog|httpslog|dontlognull|dontlog-normal|log-separate-errors|logasap|log-health-checks|http-ignore-probes))(?: |$)/,
    'log settings; Causeway writes a line for each connection, see log in causeway.yaml',
  ],
  [/^stats(?: |$)/, 'the statistics page; the dashboard at admin.on takes its place'],
  [
    /^timeout /,
    'time-outs for queues and HTTP requests; timeouts.hello limits the time until the destination is known',
  ],
  [
    /^(?:maxconn|fullconn|backlog|rate-limit) /,
    'limits of one frontend or backend; see limits of a cluster (connections, perSource, newPerSecond)',
  ],
  [
    /^(?:http-request|http-response|http-after-response|compression|errorfile|errorfiles|errorloc\w*|cookie|capture|filter|reqadd|rspadd|req\w+|rsp\w+|rewrite|redirect|dynamic-cookie-key|option http\S*)(?: |$)/,
    'changes to HTTP requests and responses; Causeway passes them on as they are, with X-Forwarded-* set',
  ],
  [
    /^(?:stick|stick-table|tcp-request \S+ (?:track-sc\S*|sc-\S+)|tcp-response)/,
    'stick tables and counters; see limits of a cluster (perSource, newPerSecond)',
  ],
  [/^monitor/, 'the probe of the proxy itself; use /healthz and /readyz at admin.on'],
  [
    /^(?:http-check|tcp-check|email-alert|option (?:\S+-check|mysql-check|\S+-chk))/,
    'how answers of health checks are judged; see health of a route',
  ],
];

export function leftOut(
  section: Section,
  taken: ReadonlySet<Line>,
): { readonly place: Place; readonly directive: string; readonly reason: string }[] {
  return section.lines
    .filter(line => !taken.has(line))
    .map(line => ({ line, text: line.words.map(word => word.text).join(' ') }))
    .filter(({ text }) => (section.kind === 'global' ? !text.startsWith('maxconn ') : !READ.test(text)))
    .map(({ line, text }) => ({
      place: line.place,
      directive: directiveOf(line),
      reason:
        section.kind === 'global'
          ? 'settings of the HAProxy process'
          : (REASONS.find(([pattern]) => pattern.test(text))?.[1] ??
            `'${directiveOf(line)}' has no counterpart here`),
    }));
}

/** Enough to find it: `option x`, `http-request set-header`. Values may be secrets. */
function directiveOf({ words }: Line): string {
  const [first, second, third] = words.map(word => word.text);
  if (first === 'no') return `${first} ${second ?? ''} ${third ?? ''}`.trim();
  const isTwo =
    /^(?:option|timeout|stats|http-request|http-response|http-check|tcp-check|stick|ssl-\w+)$/.test(first);
  if (first === 'tcp-request') return [first, second, third?.replace(/\(.*/, '')].join(' ');
  return isTwo && second !== undefined ? `${first} ${second.replace(/\(.*/, '')}` : first;
}

/** Of the lines of one finding, this many are named. */
const MAX_LINES = 12;

/** One finding for each reason, at the first place. */
export function leftOutFindings(all: ReturnType<typeof leftOut>): ImportFinding[] {
  const byReason = new Map<string, { place: Place; directives: Set<string>; lines: number[] }>();
  for (const { place, directive, reason } of all) {
    const known = byReason.get(`${place.file} ${reason}`) ?? {
      place,
      directives: new Set<string>(),
      lines: [],
    };
    known.directives.add(directive);
    known.lines.push(place.line);
    byReason.set(`${place.file} ${reason}`, known);
  }
  return [...byReason].map(([key, { place, directives, lines }]) => {
    const reason = key.slice(place.file.length + 1);
    const named = reason.startsWith("'") ? '' : `: ${[...directives].join(', ')}`;
    const others = lines.length === 1 ? '' : ` (${linesText(lines)})`;
    return { place, kind: 'not carried over', text: `${reason}${named}${others}` };
  });
}

function linesText(lines: readonly number[]): string {
  const more = lines.length > MAX_LINES ? ` and ${lines.length - MAX_LINES} more` : '';
  return `lines ${lines.slice(0, MAX_LINES).join(', ')}${more}`;
}
