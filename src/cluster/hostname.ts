// Host names as routes match them: lower case, no trailing dot; exact, with one leading wildcard label, or only `*`.

/** Matches every host that no other host or wildcard matches, and TLS without a server name. */
export const CATCH_ALL = '*';

/** RFC 1035 2.3.4: at most 253 characters in this notation, and 63 per label. */
const MAX_NAME = 253;
const NAME = /^(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*$/;
/** The cluster's domain may be any. */
const NAME_INSIDE = /^(?:kubernetes|(?:kubernetes|\*)\.default(?:\.svc(?:\..+)?)?)$/;
const IPV4 = /^\d{1,3}(\.\d{1,3}){3}$/;

/** Converts to lower case and drops one trailing dot. Does not check whether the name is legal. */
export function normalizeHost(text: string): string {
  const lower = text.toLowerCase();
  return lower.endsWith('.') ? lower.slice(0, -1) : lower;
}

/** A legal name that is not an IPv4 literal. Allows `_`, because people use it. Expects a normalized name. */
export function isHostname(name: string): boolean {
  return name.length <= MAX_NAME && NAME.test(name) && !IPV4.test(name);
}

/** `*.x.y`: the wildcard is the whole first label, and a legal name of one or more labels follows. */
export function isWildcard(pattern: string): boolean {
  return pattern.startsWith('*.') && isHostname(pattern.slice(2));
}

/** Names of the API server inside every cluster, and wildcards that match them. Expects a normalized name. */
export function isNameInside(host: string): boolean {
  return NAME_INSIDE.test(host);
}

/** The most specific of a route's hosts that matches: the name, its wildcard, or `*`. Expects a normalized name. */
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
