// The diagnosis as people read it: grouped by cluster, a mark for each check, what to do below what is wrong. Pure.

import { type Check, type Diagnosis, type NotChecked, steps } from '../doctor/check.ts';
import type { Repair } from '../doctor/repair.ts';
import { printable } from '../text/printable.ts';
import { countText } from './count-text.ts';

type Paint = (code: string, text: string) => string;

const marks = { ok: ['32', '✓'], warn: ['33', '!'], fail: ['31', '✗'] } as const;
const STEP_WIDTH = 12;

export function diagnosisText({ checks, notChecked }: Diagnosis, paint: Paint): string {
  const groups = [...new Set([...checks, ...notChecked].map(({ cluster }) => cluster))];
  const lines = groups.flatMap(cluster => {
    const isOwn = (one: { readonly cluster: string | null }) => one.cluster === cluster;
    const own = [
      ...checks.filter(isOwn).map(check => ({ step: check.step, lines: checkLines(check, paint) })),
      ...notChecked.filter(isOwn).map(one => ({ step: one.step, lines: [skippedLine(one, paint)] })),
    ].toSorted((a, b) => steps.indexOf(a.step) - steps.indexOf(b.step));
    const title = cluster === null ? 'gateway' : `cluster ${printable(cluster)}`;
    return [paint('1', title), ...own.flatMap(({ lines }) => lines), ''];
  });
  return `${lines.join('\n')}\n${summary(checks, paint)}\n`;
}

function checkLines({ step, status, code, text, fix }: Check, paint: Paint): string[] {
  const [colour, mark] = marks[status];
  const name = status === 'ok' ? '' : `${paint(colour, code)}: `;
  const line = `  ${paint(colour, mark)} ${step.padEnd(STEP_WIDTH)} ${name}${printable(text)}`;
  return fix === null ? [line] : [line, `${' '.repeat(STEP_WIDTH + 5)}→ ${printable(fix)}`];
}

function skippedLine({ step, why }: NotChecked, paint: Paint): string {
  return paint('2', `  – ${step.padEnd(STEP_WIDTH)} not checked: ${printable(why)}`);
}

function summary(checks: Diagnosis['checks'], paint: Paint): string {
  const count = (status: keyof typeof marks) => checks.filter(check => check.status === status).length;
  const [fails, warnings] = [count('fail'), count('warn')];
  if (fails === 0 && warnings === 0)
    return paint('32', `ok: ${countText(checks.length, 'check')}, nothing is wrong`);
  const parts = [
    ...(fails > 0 ? [countText(fails, 'failure')] : []),
    ...(warnings > 0 ? [countText(warnings, 'warning')] : []),
  ];
  const text = `${parts.join(', ')}, ${count('ok')} ok. What each code means: docs/troubleshoot.md`;
  return paint(fails > 0 ? '31' : '33', text);
}

/** What --fix would do. */
export function repairText({ cluster, what, command }: Repair): string {
  return `cluster ${printable(cluster)}: ${printable(what)}\n    ${printable(command)}\n`;
}
