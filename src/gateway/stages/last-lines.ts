// The last lines of a response's head: how its body is framed, and whether the connection goes on.

const asBytes = (text: string) => Buffer.from(text, 'latin1');
const chunked = 'Transfer-Encoding: chunked\r\n';
const closing = 'Connection: close\r\n';

const lines = {
  close: asBytes(closing),
  chunkedClose: asBytes(`${chunked}${closing}`),
  keepAlive: asBytes(''),
  chunkedKeepAlive: asBytes(''),
};
/** For which time the lines that keep a connection were made. It changes with the file only. */
let madeFor = -1;

export function lastLines(
  keepAliveMs: number,
  { isChunked, keepAlive }: { readonly isChunked: boolean; readonly keepAlive: boolean },
): Buffer {
  if (!keepAlive) return isChunked ? lines.chunkedClose : lines.close;
  if (madeFor !== keepAliveMs) {
    madeFor = keepAliveMs;
    const text = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n`;
    lines.keepAlive = asBytes(text);
    lines.chunkedKeepAlive = asBytes(`${chunked}${text}`);
  }
  return isChunked ? lines.chunkedKeepAlive : lines.keepAlive;
}
