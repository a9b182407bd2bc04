// The HTTP/1.1 CONNECT that stands for one of HTTP/2 (RFC 9113 8.5) on its way back to the front, which reads it like
// every other. Only what the front looks at goes along.

/** What a target may consist of. Anything else could be read as more than a target. */
const TARGET = /^[\x21-\x7e]+$/;
/** RFC 9110 5.5, and no bytes beyond ASCII. */
const VALUE = /^[\t\x20-\x7e]*$/;

const passed: ReadonlyMap<string, string> = new Map([
  ['x-gardener-destination', 'X-Gardener-Destination'],
  ['causeway-signature', 'Causeway-Signature'],
]);

/**
 * `rawHeaders` are names and values in turn, as node:http2 has them; a header that is there twice stays so. What
 * cannot be said in HTTP/1.1 becomes a request that the front refuses with `bad-request`, and logs.
 */
export function buildConnectHead(rawHeaders: readonly string[]): Uint8Array {
  const targets: string[] = [];
  const fields: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at], rawHeaders[at + 1]];
    const known = passed.get(name);
    if (name === ':authority') targets.push(value);
    else if (known !== undefined) fields.push(VALUE.test(value) ? `${known}: ${value}\r\n` : 'malformed\r\n');
  }
  const target = targets.length === 1 && TARGET.test(targets[0]) ? targets[0] : '';
  return Buffer.from(`CONNECT ${target} HTTP/1.1\r\n${fields.join('')}\r\n`, 'latin1');
}
