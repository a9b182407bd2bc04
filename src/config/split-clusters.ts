// Cuts a file at its list of clusters: the text of each cluster, and the file without them. Only where indentation alone
// tells the clusters apart; whether the parts mean what they seem to mean is for read-quickly.ts to find out.

export interface ClusterBlock {
  /** Whole lines, from the one that begins with "- ". */
  readonly text: string;
  /** Lines of the file before it. */
  readonly linesBefore: number;
}

export interface SplitClusters {
  readonly blocks: readonly ClusterBlock[];
  /** Spaces before each "- ". */
  readonly indent: number;
  /** The file without the blocks. */
  readonly rest: string;
  /** The line of the key, counted from 1. */
  readonly keyLine: number;
  /** Lines between the key and what follows the clusters. */
  readonly blockLines: number;
}

const KEY = /^clusters: *(?:#.*)?\n/gm;
const SPACE = 0x20;
const DASH = 0x2d;
const HASH = 0x23;
const NEWLINE = 0x0a;

/** Undefined where this cannot be told for certain. */
export function splitClusters(text: string): SplitClusters | undefined {
  if (text.includes('\r')) return undefined;
  const [key, another] = text.matchAll(KEY);
  if (key === undefined || another !== undefined) return undefined;
  const start = key.index + key[0].length;
  const keyLine = countLines(text, 0, start);
  const blocks: ClusterBlock[] = [];
  let indent = -1;
  let line = keyLine;
  let blockStart = -1;
  let blockLine = 0;
  let at = start;
  const endBlock = (end: number) => {
    if (blockStart >= 0) blocks.push({ text: text.slice(blockStart, end), linesBefore: blockLine });
  };
  while (at < text.length) {
    let first = at;
    while (text.charCodeAt(first) === SPACE) first++;
    const code = text.charCodeAt(first);
    if (code !== HASH && code !== NEWLINE && first < text.length) {
      const isItem = code === DASH && text.charCodeAt(first + 1) === SPACE;
      if (indent < 0) indent = first - at;
      if (first - at < indent || (first - at === indent && !isItem)) break;
      if (first - at === indent) {
        endBlock(at);
        blockStart = at;
        blockLine = line;
      }
    }
    const end = text.indexOf('\n', first);
    at = end < 0 ? text.length : end + 1;
    line++;
  }
  endBlock(at);
  // What follows is at the top level, or belongs to the clusters in a way that is not understood here.
  if (blocks.length === 0 || text.charCodeAt(at) === SPACE) return undefined;
  return { blocks, indent, rest: text.slice(0, start) + text.slice(at), keyLine, blockLines: line - keyLine };
}

function countLines(text: string, from: number, to: number): number {
  let lines = 0;
  for (let at = text.indexOf('\n', from); at >= 0 && at < to; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}
