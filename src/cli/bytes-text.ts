// Formats a byte count for people: `517 B`, `3.0 MiB`.

export function bytesText(count: number): string {
  if (count < 1024) return `${count} B`;
  const power = Math.min(Math.floor(Math.log2(count) / 10), 4);
  return `${(count / 2 ** (10 * power)).toFixed(1)} ${['', 'KiB', 'MiB', 'GiB', 'TiB'][power]}`;
}
