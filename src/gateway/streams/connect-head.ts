// Translates an HTTP/2 CONNECT (RFC 9113 8.5) into the HTTP/1.1 CONNECT that the stages read.
// Only the headers that they look at are passed on.

/** The characters of a target. Any other could be parsed as more than a target. */
const TARGET = /^[\x21-\x7e]+$/;
/** RFC 9110 5.5, limited to ASCII. */
const VALUE = /^[\t\x20-\x7e]*$/;

const passed: ReadonlyMap<string, string> = new Map([
  ['x-gardener-destination', 'X-Gardener-Destination'],
  ['causeway-signature', 'Causeway-Signature'],
]);

/**
 * `rawHeaders` alternates names and values, as in node:http2; a repeated header stays repeated. Headers that HTTP/1.1
 * cannot express become a request that the worker refuses with `bad-request`, and logs.
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
