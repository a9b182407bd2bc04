// A JSON log line as a person likes to read it: time, message, then what matters most, coloured on a terminal.

import { bytesText } from './bytes-text.ts';

type Fields = Record<string, unknown>;

const colours: Record<string, string> = { warn: '33', error: '31', fatal: '31', debug: '2', trace: '2' };
const served = new Set(['done', 'drained', 'client-reset', 'backend-reset']);

export function textLine(json: string, colour: boolean): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Fields & {
    level: string;
    time: string;
    msg: string;
  };
  const paint = (code: string, text: string) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text);
  const clock = paint('2', time.slice(11, 23));
  const word = level === 'info' ? '' : ` ${paint(colours[level] ?? '0', level)}`;
  const text = msg === 'connection' ? connectionText(fields, paint) : `${msg}${fieldsText(fields, paint)}`;
  return `${clock}${word} ${text}\n`;
}

function connectionText(fields: Fields, paint: (code: string, text: string) => string): string {
  const reason = String(fields.reason);
  const target =
    fields.cluster === null
      ? String(fields.host ?? fields.clusterId ?? '?')
      : `${fields.cluster}/${fields.route}`;
  const parts = [
    paint(served.has(reason) ? '32' : '33', reason.padEnd(16)),
    String(fields.client),
    '→',
    paint('1', target),
    ...(fields.backend === null ? [] : [String(fields.backend)]),
    ...(typeof fields.error === 'string' ? [paint('33', fields.error)] : []),
    ...(fields.host === null || fields.cluster === null ? [] : [paint('2', `(${fields.host})`)]),
    paint('2', `in ${bytesText(Number(fields.in))} out ${bytesText(Number(fields.out))} ${fields.ms} ms`),
  ];
  return parts.join(' ');
}

function fieldsText(fields: Fields, paint: (code: string, text: string) => string): string {
  return Object.entries(fields)
    .map(
      ([key, value]) =>
        ` ${paint('2', `${key}=`)}${typeof value === 'string' ? value : JSON.stringify(value)}`,
    )
    .join('');
}
