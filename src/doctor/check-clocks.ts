// Clocks: signed ids are valid for a minute, certificates and tokens have dates. The Date of the API server's answer is
// compared with the clock of this machine.

import type { Config } from '../config/config.ts';
import type { Report } from './check.ts';
import type { ClockReading } from './check-api.ts';

/** A signature is accepted within this time of the gateway's clock. */
const SIGNED_MS = 60_000;
/** Half of it: clocks that drift so far will drift further. */
const WARN_MS = 30_000;

export function checkClocks(
  reading: ClockReading | undefined,
  { identity }: Pick<Config, 'identity'>,
  report: Report,
): void {
  if (reading === undefined || Number.isNaN(reading.theirs)) {
    return report.skip('clocks', 'the API server did not say what time it is');
  }
  const { theirs, before, after } = reading;
  // Date is cut to a second, and was set some time between the two readings of our own clock.
  const ahead = theirs - after;
  const behind = before - (theirs + 1000);
  const skew = Math.max(ahead, behind, 0);
  const words = `The clock of the API server is ${Math.round(skew / 1000)} s ${ahead > behind ? 'ahead of' : 'behind'} that of this machine`;
  const fix = 'Run NTP on both (timedatectl, chronyc tracking)';
  if (skew > SIGNED_MS && identity !== undefined) {
    const text = `${words}: signed ids are accepted within ${SIGNED_MS / 1000} s only`;
    report.fail('clocks', 'ClockSkew', text, fix);
  } else if (skew > WARN_MS) {
    report.warn('clocks', 'ClockSkew', `${words}: tokens and certificates will be refused`, fix);
  } else report.ok('clocks', 'The clock of the API server agrees with that of this machine');
}
