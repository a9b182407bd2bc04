// RFC 9110 5.6.2: the characters of methods and field names.

const isTokenByte = new Uint8Array(256);
for (const char of "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
  isTokenByte[char.charCodeAt(0)] = 1;
}

/** The index of the first byte in [from, to) that cannot be part of a token, or `to`. */
export function endOfToken(bytes: Uint8Array, from: number, to: number): number {
  let at = from;
  while (at < to && isTokenByte[bytes[at]] === 1) at++;
  return at;
}
