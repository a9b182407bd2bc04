// The run as an SVG: a card for each important figure, a bar for each contender, a whisker for its spread.

import { figure, labelOf, ratioToBase } from './figures.ts';
import type { MeasureReport, Report, ScenarioReport } from './report.ts';

const WIDTH = 960;
const MARGIN = 28;
const GAP = 20;
const COLUMNS = 2;
const CARD_WIDTH = (WIDTH - 2 * MARGIN - (COLUMNS - 1) * GAP) / COLUMNS;
const HEAD = 110;
const CARD_HEAD = 58;
const ROW = 30;
const CARD_FOOT = 14;
const LABEL_WIDTH = 148;
const VALUE_WIDTH = 100;
const BAR_WIDTH = CARD_WIDTH - LABEL_WIDTH - VALUE_WIDTH - 32;

const OURS = '#0f766e';
const OTHERS = '#94a3b8';
const NOBODY = '#cbd5e1';
const INK = '#0f172a';
const FAINT = '#64748b';

interface Card {
  readonly scenario: ScenarioReport;
  readonly measure: MeasureReport;
}

export function renderSvg(report: Report): string {
  const cards = report.scenarios.flatMap(scenario =>
    scenario.measures
      .filter(({ picture, results }) => picture !== undefined && Object.keys(results).length > 0)
      .map(measure => ({ scenario, measure })),
  );
  const parts: string[] = [];
  let y = HEAD;
  for (let at = 0; at < cards.length; at += COLUMNS) {
    const row = cards.slice(at, at + COLUMNS);
    const height = Math.max(...row.map(cardHeight));
    row.forEach((card, i) => parts.push(renderCard(card, MARGIN + i * (CARD_WIDTH + GAP), y, height)));
    y += height + GAP;
  }
  const height = y + 18;
  const how = `Median of ${report.rounds}, whiskers from least to most, ratios to HAProxy · ${report.pinning}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif">
<title>Causeway, HAProxy and nginx compared</title>
<rect width="${WIDTH}" height="${height}" fill="#f8fafc"/>
<text x="${MARGIN}" y="46" font-size="24" font-weight="700" fill="${INK}">Causeway next to HAProxy and nginx</text>
<text x="${MARGIN}" y="70" font-size="13" fill="${FAINT}">${escape(machineLine(report))}</text>
<text x="${MARGIN}" y="88" font-size="13" fill="${FAINT}">${escape(how)}</text>
${parts.join('\n')}
</svg>
`;
}

function renderCard({ scenario, measure }: Card, x: number, y: number, height: number): string {
  const rows = scenario.columns.filter(({ id }) => measure.results[id] !== undefined);
  const most = Math.max(...rows.map(({ id }) => measure.results[id].max), Number.MIN_VALUE);
  const hint = `${labelOf({ label: '', unit: measure.unit }).replace(/^, /, '')} · ${measure.better} is better`;
  const bars = rows.map((column, i) => renderBar(measure, column, most, CARD_HEAD + i * ROW));
  return `<g transform="translate(${x} ${y})">
<rect width="${CARD_WIDTH}" height="${height}" rx="10" fill="#ffffff" stroke="#e2e8f0"/>
<text x="16" y="28" font-size="15" font-weight="600" fill="${INK}">${escape(measure.picture ?? measure.label)}</text>
<text x="16" y="46" font-size="12" fill="${FAINT}">${escape(hint)}</text>
${bars.join('\n')}
</g>`;
}

function renderBar(
  measure: MeasureReport,
  { id, label }: { readonly id: string; readonly label: string },
  most: number,
  y: number,
): string {
  const { median, min, max } = measure.results[id];
  const at = (value: number) => round(16 + LABEL_WIDTH + (value / most) * BAR_WIDTH);
  const left = at(0);
  const middle = y + 11;
  const colour = id === 'causeway' ? OURS : id === 'direct' ? NOBODY : OTHERS;
  const weight = id === 'causeway' ? 600 : 400;
  const ratio = ratioToBase(measure, id);
  return `<text x="16" y="${middle + 4}" font-size="12" font-weight="${weight}" fill="${INK}">${escape(shorten(label))}</text>
<rect x="${left}" y="${y + 2}" width="${Math.max(1.5, round(at(median) - left))}" height="18" rx="3" fill="${colour}"/>
<path d="M${at(min)} ${middle}H${at(max)}M${at(min)} ${middle - 4}v8M${at(max)} ${middle - 4}v8" stroke="${INK}" stroke-opacity="0.55" fill="none"/>
<text x="${CARD_WIDTH - 16}" y="${middle + 4}" font-size="12" font-weight="${weight}" text-anchor="end" fill="${INK}">${figure(median)}${ratio === undefined ? '' : `<tspan fill="${FAINT}" font-weight="400"> ${ratio}</tspan>`}</text>`;
}

function cardHeight({ scenario, measure }: Card): number {
  const rows = scenario.columns.filter(({ id }) => measure.results[id] !== undefined).length;
  return CARD_HEAD + rows * ROW + CARD_FOOT;
}

function machineLine({ machine, date }: Report): string {
  const wanted = ['processor', 'causeway', 'HAProxy', 'nginx'];
  const values = machine
    .filter(([name]) => wanted.includes(name))
    .map(([name, value]) => (name === 'processor' ? value : `${name} ${value}`));
  return [...values, date.slice(0, 10)].join(' · ');
}

/** The length that fits before the bar; the tables have the whole label. */
function shorten(label: string): string {
  const short = label
    .replace('HAProxy, 256 KiB buffers', 'HAProxy, 256 KiB')
    .replace(/ replaced( and reload)?$/, (_, reload) => (reload ? ' + reload' : ''));
  return short.length > 22 ? `${short.slice(0, 21)}…` : short;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
