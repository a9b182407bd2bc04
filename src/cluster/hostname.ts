// Host names as routes match them: lower case, no trailing dot, exact, with one wildcard label in front, or `*` alone.

/** In a route's hosts: whatever no other host or wildcard matches, TLS without a server name included. */
export const CATCH_ALL = '*';

/** RFC 1035 2.3.4: a name has at most 253 characters in this notation, a label 63. */
const MAX_NAME = 253;
const LABEL = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;
const IPV4 = /^\d{1,3}(\.\d{1,3}){3}$/;

/** Lower case, without one trailing dot. Does not say whether the name is legal. */
export function normalizeHost(text: string): string {
  const lower = text.toLowerCase();
  return lower.endsWith('.') ? lower.slice(0, -1) : lower;
}

/** A legal name that is not an IP literal. `_` is allowed, since people use it. Expects a normalized name. */
export function isHostname(name: string): boolean {
  if (name.length === 0 || name.length > MAX_NAME || IPV4.test(name)) return false;
  return name.split('.').every(label => LABEL.test(label));
}

/** `*.x.y`: the wildcard stands alone as first label and something with a dot or not follows it. */
export function isWildcard(pattern: string): boolean {
  return pattern.startsWith('*.') && isHostname(pattern.slice(2));
}

/** Which of a route's hosts this name falls to: itself, its wildcard, or `*`. Expects a normalized name. */
export function patternFor(name: string, hosts: readonly string[]): string | undefined {
  return [name, wildcardOf(name), CATCH_ALL].find(
    pattern => pattern !== undefined && hosts.includes(pattern),
  );
}

/** The wildcard that would match this name, or undefined for a single label. */
export function wildcardOf(name: string): string | undefined {
  const dot = name.indexOf('.');
  return dot < 0 ? undefined : `*${name.slice(dot)}`;
}
