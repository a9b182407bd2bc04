// Formats a duration as in kubectl's AGE column: at most two units, and fewer for longer durations.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function ageText(milliseconds: number): string {
  const span = Math.max(0, milliseconds);
  const count = (unit: number) => Math.floor(span / unit);
  const rest = (large: number, small: number) => Math.floor((span % large) / small);
  const two = (large: number, first: string, small: number, second: string) => {
    const left = rest(large, small);
    return left === 0 ? `${count(large)}${first}` : `${count(large)}${first}${left}${second}`;
  };
  if (span < 2 * MINUTE) return `${count(SECOND)}s`;
  if (span < 10 * MINUTE) return two(MINUTE, 'm', SECOND, 's');
  if (span < 3 * HOUR) return `${count(MINUTE)}m`;
  if (span < 8 * HOUR) return two(HOUR, 'h', MINUTE, 'm');
  if (span < 2 * DAY) return `${count(HOUR)}h`;
  if (span < 8 * DAY) return two(DAY, 'd', HOUR, 'h');
  return `${count(DAY)}d`;
}
