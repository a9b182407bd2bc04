// HAProxy's times (Configuration Manual, 2.5): a number and a unit, milliseconds without one.

const UNITS: Readonly<Record<string, number>> = {
  us: 0.001,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Undefined if it is not a time, or one of 0, which means none. */
export function toMs(text: string | undefined): number | undefined {
  const match = /^(\d{1,15})(us|ms|s|m|h|d)?$/.exec(text ?? '');
  if (match === null) return undefined;
  const ms = Math.ceil(Number(match[1]) * UNITS[match[2] ?? 'ms']);
  return ms === 0 ? undefined : ms;
}
