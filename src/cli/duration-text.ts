// Formats a duration for people: `12.3 ms`, `3.9 s`, `2 min 5 s`, `1 d 2 h`.

const units = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
  [1, 's'],
] as const;

export function durationText(ms: number): string {
  if (!(tenths(ms) >= 1000)) return `${tenths(ms)} ms`;
  if (tenths(ms / 1000) < 60) return `${tenths(ms / 1000)} s`;
  // Only the two largest units.
  const seconds = Math.round(ms / 1000);
  const at = units.findIndex(([size]) => seconds >= size);
  const [size, unit] = units[at];
  const next = units[at + 1];
  const rest = next === undefined ? 0 : Math.floor((seconds % size) / next[0]);
  return `${Math.floor(seconds / size)} ${unit}${rest === 0 ? '' : ` ${rest} ${next?.[1]}`}`;
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}
