// What HAProxy says about a configuration that it does not accept, as sentences for people: `[ALERT] (123) : config :
// parsing [/tmp/x.cfg:12] : 'bind' : …` without its process number, summaries and hints.

import { printable } from '../text/printable.ts';

export interface HaproxyAlert {
  readonly level: 'alert' | 'warning';
  /** The line of the configuration; absent for what concerns the whole. */
  readonly line?: number;
  readonly text: string;
}

/** HAProxy may repeat itself for thousands of lines. */
const MAX_ALERTS = 20;
const MAX_TEXT = 500;

/** `[ALERT]    (123) : config : …`; up to 2.3, `[ALERT] 319/120000 (123) : …`. */
const LINE = /^\[(ALERT|WARNING|EMERG)\]\s*(?:\S+\s+)?\(\d+\)\s*: *(.*)$/;
/** The colon between place and message is missing in some messages. */
const PLACE = /^(?:config : )?parsing \[[^\]]*:(\d+)\]\s*:?\s*(.*)$/;
/** They say only that there was something to say. */
const SUMMARY =
  /^(?:haproxy version is|path to executable is|fatal errors? found|error\(s\) found in configuration|some configuration warnings|configuration file is valid)/i;

/** Expects stderr and stdout of `haproxy -c`. Never throws. */
export function parseHaproxyAlerts(output: string): readonly HaproxyAlert[] {
  const alerts: HaproxyAlert[] = [];
  for (const raw of output.split('\n')) {
    if (alerts.length === MAX_ALERTS) break;
    const match = LINE.exec(raw.trimEnd());
    if (match === null) continue;
    const level = match[1] === 'WARNING' ? 'warning' : 'alert';
    const place = PLACE.exec(match[2]);
    const rest = place === null ? match[2].replace(/^config : /, '') : place[2];
    const text = sentence(rest);
    if (text === '' || SUMMARY.test(text)) continue;
    alerts.push({ level, ...(place !== null && { line: Number(place[1]) }), text });
  }
  return alerts;
}

/** One sentence for a person: HAProxy's own message, with the line of its configuration. */
export function formatHaproxyAlert({ line, text }: HaproxyAlert): string {
  return line === undefined ? `HAProxy: ${text}` : `HAProxy: line ${line}: ${text}`;
}

function sentence(text: string): string {
  return printable(text.replace(/\s+/g, ' ').replace(/ : /g, ': ').trim().slice(0, MAX_TEXT)).replace(
    /\.$/,
    '',
  );
}
