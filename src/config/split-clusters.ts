// Cuts a file at its list of clusters: where each cluster is, and the file without them. Only where indentation alone
// tells the clusters apart; whether the parts mean what they seem to mean is for read-quickly.ts to find out. Of a file
// that was split before, only what changed is looked at.

export interface SplitClusters {
  /** The file, in UTF-8. */
  readonly bytes: Buffer;
  /** Where each cluster begins, at its line with "- ", and behind them where the last one ends. */
  readonly starts: Int32Array;
  /** Spaces before each "- ". */
  readonly indent: number;
  /** Index just after the line of the key. */
  readonly keyEnd: number;
  /** How many clusters at the beginning and at the end are those of the file before, byte by byte. */
  readonly sameFirst: number;
  readonly sameLast: number;
}

const KEY = 'clusters:';
const SPACE = 0x20;
const DASH = 0x2d;
const HASH = 0x23;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
/** Bytes to compare at a time. */
const PIECE = 64 * 1024;

/** Undefined where this cannot be told for certain. */
export function splitClusters(bytes: Buffer, before?: SplitClusters): SplitClusters | undefined {
  if (bytes.includes(RETURN)) return undefined;
  const keyEnd = endOfKey(bytes);
  if (keyEnd === undefined) return undefined;
  const known = before && sameEnds(before, bytes);
  const starts: number[] = [];
  // The first cluster decides.
  let indent = known === undefined || known.first === 0 ? -1 : known.indent;
  let at = known === undefined || known.first === 0 ? keyEnd : known.starts[known.first];
  while (at < bytes.length) {
    let first = at;
    while (bytes[first] === SPACE) first++;
    const byte = bytes[first];
    if (byte !== HASH && byte !== NEWLINE && first < bytes.length) {
      const isItem = byte === DASH && bytes[first + 1] === SPACE;
      if (indent < 0) indent = first - at;
      if (first - at < indent || (first - at === indent && !isItem)) break;
      if (first - at === indent) {
        const sameLast = known?.indent === indent ? known.lastFrom(at) : undefined;
        if (sameLast !== undefined) return joined(bytes, keyEnd, indent, known as Known, starts, sameLast);
        starts.push(at);
      }
    }
    const end = bytes.indexOf(NEWLINE, first);
    at = end < 0 ? bytes.length : end + 1;
  }
  starts.push(at);
  const sameFirst = known?.first ?? 0;
  // What follows is at the top level, or belongs to the clusters in a way that is not understood here.
  if (sameFirst + starts.length === 1 || bytes[at] === SPACE) return undefined;
  const all = Int32Array.from({ length: sameFirst + starts.length }, (_, index) =>
    index < sameFirst ? (known as Known).starts[index] : starts[index - sameFirst],
  );
  return { bytes, starts: all, indent, keyEnd, sameFirst, sameLast: 0 };
}

/** The text of a cluster: whole lines. */
export function blockOf({ bytes, starts }: SplitClusters, index: number): string {
  return bytes.toString('utf8', starts[index], starts[index + 1]);
}

/** The file without its clusters. */
export function restOf({ bytes, starts, keyEnd }: SplitClusters): string {
  return bytes.toString('utf8', 0, keyEnd) + bytes.toString('utf8', starts[starts.length - 1]);
}

/** Lines in [from, to). */
export function countLines(bytes: Buffer, from: number, to: number): number {
  let lines = 0;
  for (let at = bytes.indexOf(NEWLINE, from); at >= 0 && at < to; at = bytes.indexOf(NEWLINE, at + 1))
    lines++;
  return lines;
}

/** The end of the line with the key; undefined if there is none, or more than one. */
function endOfKey(bytes: Buffer): number | undefined {
  let found: number | undefined;
  for (let at = bytes.indexOf(KEY); at >= 0; at = bytes.indexOf(KEY, at + 1)) {
    if (at > 0 && bytes[at - 1] !== NEWLINE) continue;
    let end = at + KEY.length;
    while (bytes[end] === SPACE) end++;
    if (bytes[end] === HASH) end = bytes.indexOf(NEWLINE, end);
    if (end < 0 || bytes[end] !== NEWLINE) continue;
    if (found !== undefined) return undefined;
    found = end + 1;
  }
  return found;
}

/** What a file has in common with the one before. */
interface Known {
  readonly starts: Int32Array;
  readonly indent: number;
  /** How many clusters at the beginning are the same. */
  readonly first: number;
  /** How many clusters from that place to the end are the same; undefined if no cluster of the file before is there. */
  readonly lastFrom: (at: number) => number | undefined;
  /** By how much they have moved. */
  readonly shift: number;
}

function sameEnds({ bytes: old, starts, indent }: SplitClusters, bytes: Buffer): Known {
  const prefix = commonPrefix(old, bytes);
  // The beginning of the next cluster, which is the end of the last one that is the same, must be there with its "- ".
  let first = 0;
  while (first + 1 < starts.length - 1 && starts[first + 1] + indent + 2 <= prefix) first++;
  const suffix = commonSuffix(old, bytes, Math.min(old.length, bytes.length) - prefix);
  const shift = bytes.length - old.length;
  let next = first;
  return {
    starts,
    indent,
    first,
    shift,
    lastFrom: at => {
      if (at < bytes.length - suffix) return undefined;
      while (next < starts.length - 1 && starts[next] + shift < at) next++;
      return next < starts.length - 1 && starts[next] + shift === at ? starts.length - 1 - next : undefined;
    },
  };
}

function joined(
  bytes: Buffer,
  keyEnd: number,
  indent: number,
  { starts: old, first, shift }: Known,
  between: readonly number[],
  sameLast: number,
): SplitClusters {
  const starts = new Int32Array(first + between.length + sameLast + 1);
  starts.set(old.subarray(0, first));
  starts.set(between, first);
  const last = old.subarray(old.length - 1 - sameLast);
  starts.set(
    last.map(start => start + shift),
    first + between.length,
  );
  return { bytes, starts, indent, keyEnd, sameFirst: first, sameLast };
}

function commonPrefix(a: Buffer, b: Buffer): number {
  const most = Math.min(a.length, b.length);
  let at = 0;
  while (at < most && a.compare(b, at, Math.min(at + PIECE, most), at, Math.min(at + PIECE, most)) === 0)
    at = Math.min(at + PIECE, most);
  while (at < most && a[at] === b[at]) at++;
  return at;
}

/** At most `most` bytes. */
function commonSuffix(a: Buffer, b: Buffer, most: number): number {
  let length = 0;
  while (length < most) {
    const next = Math.min(length + PIECE, most);
    const isSame = a.compare(b, b.length - next, b.length - length, a.length - next, a.length - length) === 0;
    if (!isSame) break;
    length = next;
  }
  while (length < most && a[a.length - 1 - length] === b[b.length - 1 - length]) length++;
  return length;
}
