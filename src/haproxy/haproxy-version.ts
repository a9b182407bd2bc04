// The version of a HAProxy, from what `haproxy -v` prints, and what that version can do.

import { printable } from '../text/printable.ts';

export interface HaproxyVersion {
  readonly major: number;
  readonly minor: number;
  /** As HAProxy prints it: `3.0.11-1+deb13u1`. */
  readonly text: string;
}

/** Debian 12's. Older ones lack `tcp-request content set-src` and `balance hash`. */
const OLDEST: HaproxyVersion = { major: 2, minor: 6, text: '2.6' };

/** The syntax that `causeway render haproxy` writes by default. */
export const RENDERED: HaproxyVersion = { major: 3, minor: 0, text: '3.0' };

/** UNIQUE_ID, the only TLV that HAProxy reads before 2.9. */
export const UNIQUE_ID_TLV = 0x05;

/** The last major version that this program was written for. */
const NEWEST_MAJOR = 3;

/** `HAProxy version 3.0.11-1+deb13u1 2025/…`; before 2.4, `HA-Proxy version`. */
const VERSION_LINE = /^HA-?Proxy version (\d{1,4})\.(\d{1,4})(\S{0,60})/m;
const GIVEN = /^(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?$/;

/** From the output of `haproxy -v`; undefined if another program wrote it. */
export function parseHaproxyVersion(output: string): HaproxyVersion | undefined {
  const match = VERSION_LINE.exec(output);
  if (match === null) return undefined;
  const [, major, minor, rest] = match;
  return { major: Number(major), minor: Number(minor), text: printable(`${major}.${minor}${rest}`) };
}

/** As given by a person: `2.6` or `3.0.11`. */
export function readHaproxyVersion(given: string): HaproxyVersion | undefined {
  const match = GIVEN.exec(given);
  return match === null ? undefined : { major: Number(match[1]), minor: Number(match[2]), text: given };
}

/** Why this version is not supported, as a sentence; undefined if it is. */
export function whyUnsupported(version: HaproxyVersion): string | undefined {
  if (!isAtLeast(version, OLDEST))
    return `HAProxy ${version.text} is too old: ${OLDEST.text} or newer is needed`;
  if (version.major > NEWEST_MAJOR)
    return `HAProxy ${version.text} is not known to this version: ${OLDEST.text} to ${NEWEST_MAJOR}.x are`;
  return undefined;
}

/** `fc_pp_tlv` reads any TLV of a PROXY header. Older versions have `fc_pp_unique_id`, which reads only 0x05. */
export function readsAnyTlv(version: HaproxyVersion): boolean {
  return isAtLeast(version, { major: 2, minor: 9, text: '2.9' });
}

function isAtLeast(version: HaproxyVersion, other: HaproxyVersion): boolean {
  return version.major > other.major || (version.major === other.major && version.minor >= other.minor);
}
