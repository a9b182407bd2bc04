// The text of one item of a block sequence → plain data, for the YAML that people and our own commands write: block
// maps and lists, [ ] and { }, quoted text without escapes, words, whole numbers. It is many times faster than the YAML
// library, has no positions, and gives up wherever it is not certain of giving the same data as that library.

import { Scanner } from './plain-scanner.ts';

/** A cluster has six levels. */
const MAX_DEPTH = 16;

/** `text` is whole lines, the first of which begins with `indent` spaces and "- ". Undefined if not certain. */
export function readPlainBlock(text: string, indent: number): unknown {
  const scanner = new Scanner(text);
  if (scanner.skipToContent() !== indent || !scanner.isItem()) return undefined;
  const value = readItem(scanner, indent, 0);
  return scanner.skipToContent() === undefined ? value : undefined;
}

/** At a "-": its value, on the same line. */
function readItem(scanner: Scanner, indent: number, depth: number): unknown {
  scanner.at++;
  const column = indent + 1 + scanner.skipSpaces();
  return scanner.isKey() ? readMap(scanner, column, depth + 1) : readLine(scanner, indent);
}

/** At the first of its keys, which all begin at that column. */
function readMap(scanner: Scanner, indent: number, depth: number): unknown {
  if (depth > MAX_DEPTH) return undefined;
  const map: Record<string, unknown> = {};
  do {
    const key = scanner.takeKey();
    if (key === undefined || Object.hasOwn(map, key)) return undefined;
    const value = scanner.endLine() ? readBelow(scanner, indent, depth) : readLine(scanner, indent);
    if (value === undefined) return undefined;
    map[key] = value;
  } while (continues(scanner, indent) && !scanner.isItem());
  return map;
}

/** What follows a key that has nothing on its own line. A list may have the indentation of its key. */
function readBelow(scanner: Scanner, indent: number, depth: number): unknown {
  const below = scanner.skipToContent();
  if (below === undefined || below < indent) return undefined;
  if (scanner.isItem()) return readList(scanner, below, depth + 1);
  return below > indent && scanner.isKey() ? readMap(scanner, below, depth + 1) : undefined;
}

function readList(scanner: Scanner, indent: number, depth: number): unknown {
  if (depth > MAX_DEPTH) return undefined;
  const list: unknown[] = [];
  do {
    if (!scanner.isItem()) return list;
    const value = readItem(scanner, indent, depth);
    if (value === undefined) return undefined;
    list.push(value);
  } while (continues(scanner, indent));
  return list;
}

/** Whether the next line belongs to the map or list at this column. A deeper one makes its reader give up. */
function continues(scanner: Scanner, indent: number): boolean {
  return scanner.skipToContent() === indent;
}

/** A value that begins on this line, with nothing after it but a comment. Only [ ] and { } may go on below. */
function readLine(scanner: Scanner, indent: number): unknown {
  const value = readFlow(scanner, indent, 0);
  return value !== undefined && scanner.endLine() ? value : undefined;
}

function readFlow(scanner: Scanner, indent: number, depth: number): unknown {
  if (depth > MAX_DEPTH) return undefined;
  if (scanner.take('[')) return readFlowList(scanner, indent, depth);
  return scanner.take('{') ? readFlowMap(scanner, indent, depth) : scanner.takeScalar();
}

function readFlowList(scanner: Scanner, indent: number, depth: number): unknown {
  const list: unknown[] = [];
  if (!scanner.skipInFlow(indent)) return undefined;
  if (scanner.take(']')) return list;
  for (;;) {
    const value = readFlow(scanner, indent, depth + 1);
    if (value === undefined || !scanner.skipInFlow(indent)) return undefined;
    list.push(value);
    if (scanner.take(']')) return list;
    if (!scanner.take(',') || !scanner.skipInFlow(indent)) return undefined;
  }
}

function readFlowMap(scanner: Scanner, indent: number, depth: number): unknown {
  const map: Record<string, unknown> = {};
  if (!scanner.skipInFlow(indent)) return undefined;
  if (scanner.take('}')) return map;
  for (;;) {
    const key = scanner.takeKey();
    if (key === undefined || Object.hasOwn(map, key) || scanner.skipSpaces() === 0) return undefined;
    const value = readFlow(scanner, indent, depth + 1);
    if (value === undefined || !scanner.skipInFlow(indent)) return undefined;
    map[key] = value;
    if (scanner.take('}')) return map;
    if (!scanner.take(',') || !scanner.skipInFlow(indent)) return undefined;
  }
}
