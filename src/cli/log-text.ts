// Formats a JSON log line for people: time, event, then the most important fields, coloured on a terminal.
// Connections, requests and health changes have their own format, in columns; other lines list their fields.

import { FILE_REFUSED } from '../controller/gateway-process.ts';
import { printable, printableJson } from '../text/printable.ts';
import { bytesText } from './bytes-text.ts';
import { durationText } from './duration-text.ts';

type Fields = Readonly<Record<string, unknown>>;
type Paint = (code: string, text: string) => string;

const GREEN = '32';
const YELLOW = '33';
const RED = '31';
const DIM = '2';
const BOLD = '1';

const levelColours: Readonly<Record<string, string>> = {
  warn: YELLOW,
  error: RED,
  fatal: RED,
  debug: DIM,
  trace: DIM,
};
/** Ends that nobody needs to look into. */
const unremarkable = new Set(['done', 'drained', 'client-reset', 'backend-reset']);
/** The longest common close reason, and one space. */
const FIRST_COLUMN = 16;
/** Aligns continuation lines with the text after the time. */
const INDENTATION = ' '.repeat('00:00:00.000 '.length);

/** Lines with their own format, by message. Their first column says more than the level would. */
const formatters: ReadonlyMap<string, (fields: Fields, paint: Paint) => string> = new Map([
  ['connection', connectionText],
  ['request', requestText],
  ['health', healthText],
  [FILE_REFUSED, fileRefusedText],
]);

export function textLine(json: string, colour: boolean): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Fields & {
    level: string;
    time: string;
    msg: string;
  };
  const paint: Paint = (code, text) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text);
  const clock = paint(DIM, time.slice(11, 23));
  const format = formatters.get(msg);
  if (format !== undefined) return `${clock} ${format(fields, paint)}\n`;
  const severity = level === 'info' ? '' : `${paint(levelColours[level] ?? '0', level)} `;
  return `${clock} ${severity}${printable(msg)}${fieldsText(fields, paint)}\n`;
}

function connectionText(fields: Fields, paint: Paint): string {
  const reason = String(fields.reason);
  return line(
    column(reason, unremarkable.has(reason) ? GREEN : YELLOW, paint),
    ...clientAndTarget(fields, paint),
    ...(fields.error ? [paint(YELLOW, shown(fields.error))] : []),
    paint(
      DIM,
      `in ${bytesText(Number(fields.in))} out ${bytesText(Number(fields.out))} ${durationText(Number(fields.ms))}`,
    ),
  );
}

function requestText(fields: Fields, paint: Paint): string {
  const status = Number(fields.status);
  return line(
    column(`${status} ${fields.method ?? ''}`, status < 400 ? GREEN : YELLOW, paint),
    ...clientAndTarget(fields, paint),
    paint(DIM, durationText(Number(fields.ms))),
  );
}

function healthText(fields: Fields, paint: Paint): string {
  const [state, colour] =
    fields.up === true ? ['up', GREEN] : fields.up === false ? ['down', RED] : ['unknown', YELLOW];
  return line(
    column(state, colour, paint),
    paint(BOLD, shown(`${fields.cluster}/${fields.route}`)),
    shown(fields.backend),
    shown(fields.why),
  );
}

/** Followed by one line per mistake; a mistake contains no line break. */
function fileRefusedText({ error, ...fields }: Fields, paint: Paint): string {
  const mistakes = String(error).split('\n');
  const below = mistakes.map(mistake => `\n${INDENTATION}${printable(mistake)}`).join('');
  return `${paint(RED, 'error')} ${FILE_REFUSED}${fieldsText(fields, paint)}${below}`;
}

/** `192.0.2.1:50000 → blue/api 192.0.2.9:6443 (api.blue.lab)`; only the host or the id if there is no route. */
function clientAndTarget(fields: Fields, paint: Paint): string[] {
  const routed = fields.cluster !== null;
  const target = routed ? `${fields.cluster}/${fields.route}` : (fields.host ?? fields.clusterId ?? '?');
  return [
    shown(fields.client),
    '→',
    paint(BOLD, shown(target)),
    ...(fields.backend === null ? [] : [shown(fields.backend)]),
    ...(fields.host === null || !routed ? [] : [paint(DIM, `(${shown(fields.host)})`)]),
  ];
}

function column(text: string, colour: string, paint: Paint): string {
  return paint(colour, printable(text).padEnd(FIRST_COLUMN));
}

function line(...parts: readonly string[]): string {
  return parts.join(' ');
}

/** What is null is nothing to read about. */
function fieldsText(fields: Fields, paint: Paint): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== null)
    .map(([key, value]) => {
      if (typeof value === 'number' && /(?:Ms|^ms)$/.test(key))
        return ` ${paint(DIM, `${printable(key.replace(/Ms$/, ''))}=`)}${durationText(value)}`;
      return ` ${paint(DIM, `${printable(key)}=`)}${shown(value)}`;
    })
    .join('');
}

function shown(value: unknown): string {
  return typeof value === 'string' ? printable(value) : printableJson(String(JSON.stringify(value)));
}
