// Figures for people: short, of steady width, and no more exact than useful.

const COUNT_UNITS = ['', 'k', 'M', 'G', 'T'];
/** The same units as in the log and on the command line. */
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
/** Smaller counts are written out, because people compare them with those in logs. */
const WRITTEN_OUT = 100_000;
const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

export function formatCount(count: number): string {
  if (count < WRITTEN_OUT) return grouped.format(count);
  const { value, unit } = scaled(count, COUNT_UNITS, 1000);
  return `${value} ${unit}`;
}

export function formatBytes(bytes: number): string {
  const { value, unit } = scaled(bytes, BYTE_UNITS, 1024);
  return `${value} ${unit}`;
}

/** undefined: not known yet. */
export function formatRate(perSecond: number | undefined): string {
  if (perSecond === undefined) return '–';
  if (perSecond === 0) return '0/s';
  if (perSecond < 0.1) return '<0.1/s';
  return `${perSecond < 10 ? trimmed(perSecond, 1) : formatCount(Math.round(perSecond))}/s`;
}

export function formatByteRate(perSecond: number | undefined): string {
  return perSecond === undefined ? '–' : `${formatBytes(perSecond)}/s`;
}

/** The two largest units: `3 d 4 h`, `12 min 5 s`, `0.4 s`. */
export function formatDuration(seconds: number): string {
  if (seconds < 10) return `${trimmed(seconds, 1)} s`;
  const whole = Math.floor(seconds);
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor(whole / 3600) % 24, 'h'],
    [Math.floor(whole / 60) % 60, 'min'],
    [whole % 60, 's'],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(' ');
}

/** `09:05:07` in local time. */
export function formatClock(at: number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return '–';
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map(part => String(part).padStart(2, '0'))
    .join(':');
}

/** The time of day; with the date if it is not today: `2026-11-14 09:05`. */
export function formatMoment(at: number, now: number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime()) || date.toDateString() === new Date(now).toDateString())
    return formatClock(at);
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  return `${day.map(part => String(part).padStart(2, '0')).join('-')} ${formatClock(at).slice(0, 5)}`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** Three digits and a unit; each unit is `step` times the one before: 999, 1.02 k, 10.2 k, 102 k. */
function scaled(amount: number, units: readonly string[], step: number): { value: string; unit: string } {
  let value = amount;
  let unit = 0;
  // Four digits would not fit: take the next unit.
  while (value >= 999.5 && unit < units.length - 1) {
    value /= step;
    unit++;
  }
  if (unit === 0) return { value: grouped.format(value), unit: units[0] };
  return { value: value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0), unit: units[unit] };
}

function trimmed(value: number, digits: number): string {
  return value.toFixed(digits).replace(/\.0+$/, '');
}
