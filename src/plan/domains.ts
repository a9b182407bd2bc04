// `domains` of a source: which hosts its objects may claim.

/** `x.y` is that name and everything below it; `*.x.y` is exactly one label below. A wildcard host counts as a label. */
export function isInDomain(host: string, domain: string): boolean {
  if (!domain.startsWith('*.')) return host === domain || host.endsWith(`.${domain}`);
  const parent = domain.slice(1);
  return host.endsWith(parent) && !host.slice(0, -parent.length).includes('.') && host.length > parent.length;
}
