// YAML text → plain data, with positions on demand. Walks the library's nodes once and computes positions only for
// mistakes, because a file with 10,000 clusters has half a million values and rarely a mistake.

import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  parseDocument,
  type YAMLMap,
} from 'yaml';
import { formatPath, formatPlace, type Mistake, type Path, type Place } from './mistake.ts';
import { quote } from './reading.ts';
import { describeYamlError } from './yaml-fault.ts';

/** Far more levels than the schema has; deeper nesting is a mistake, and must not exhaust the stack. */
const MAX_DEPTH = 64;

/**
 * How many values aliases may expand to in total: an allow list of 100 for each of 10,000 clusters is fine, nested
 * aliases that expand to billions are not.
 */
const MAX_ALIASED_VALUES = 1_000_000;

export interface YamlText {
  /** Undefined when the text is not YAML. */
  readonly data: unknown;
  readonly mistakes: readonly Mistake[];
  readonly placeOf: PlaceOf;
}

/** The position of a value or of its key; if it does not exist, that of the nearest enclosing value. */
export type PlaceOf = (path: Path, at: 'key' | 'value') => Place;

/** Never throws. `file` is the file's name in messages. */
export function readYaml(text: string, file: string): YamlText {
  const toPlace = lineIndex(text);
  const document = parseDocument(text, {
    schema: 'core',
    resolveKnownTags: false,
    merge: false,
    prettyErrors: false,
    logLevel: 'error',
    // Our own check runs in linear time and reports where the first key is.
    uniqueKeys: false,
  });
  const { errors, warnings } = document;
  if (errors.length > 0) {
    const mistakes = errors.map(error => ({
      ...toPlace(error.pos[0]),
      path: '',
      text: describeYamlError(error),
    }));
    return { data: undefined, mistakes: firstPerLine(mistakes), placeOf: () => toPlace(0) };
  }
  const tree = walk(document.contents, offset => formatPlace(file, toPlace(offset)));
  const mistakes = tree.faults.map(({ offset, path, text }) => ({ ...toPlace(offset), path, text }));
  for (const warning of warnings) {
    mistakes.push({ ...toPlace(warning.pos[0]), path: '', text: describeYamlError(warning) });
  }
  return {
    data: tree.data,
    mistakes,
    placeOf: (path, at) => toPlace(offsetOf(document.contents, tree.targets, path, at)),
  };
}

interface Fault {
  readonly offset: number;
  readonly path: string;
  readonly text: string;
}

interface Tree {
  readonly data: unknown;
  readonly faults: readonly Fault[];
  /** What each alias stands for. */
  readonly targets: ReadonlyMap<Alias, Node>;
}

interface Anchored {
  readonly node: Node;
  readonly data: unknown;
  readonly values: number;
}

function walk(root: Node | null, nameOffset: (offset: number) => string): Tree {
  const faults: Fault[] = [];
  const targets = new Map<Alias, Node>();
  const anchors = new Map<string, Anchored>();
  const path: (string | number)[] = [];
  let values = 0;
  let aliased = 0;

  const fault = (node: Node, text: string) => {
    faults.push({ offset: offsetOfNode(node), path: formatPath(path), text });
  };

  const dataOf = (node: Node | null): unknown => {
    values++;
    if (node === null) return null;
    if (isAlias(node)) return dataOfAlias(node);
    const before = values;
    const data = dataOfContent(node);
    // Set only now, so that an alias inside its own target finds nothing.
    if (node.anchor !== undefined) anchors.set(node.anchor, { node, data, values: values - before + 1 });
    return data;
  };

  const dataOfContent = (node: Node): unknown => {
    if (isScalar(node)) return node.value;
    if (path.length >= MAX_DEPTH) {
      fault(node, 'is nested too deeply');
      return undefined;
    }
    if (isSeq<Node | null>(node)) return node.items.map((item, i) => inside(i, item));
    return isMap<Node, Node | null>(node) ? dataOfMap(node) : undefined;
  };

  const dataOfMap = (map: YAMLMap<Node, Node | null>): unknown => {
    const data: Record<string, unknown> = {};
    const seen = new Map<string, Node>();
    for (const pair of map.items) {
      const key = keyOf(pair);
      if (key === undefined) {
        fault(pair.key ?? map, 'a key must be text: put it in quotes if "{", "[", "?" or "*" belongs to it');
        continue;
      }
      if (pair.key.anchor !== undefined)
        anchors.set(pair.key.anchor, { node: pair.key, data: key, values: 1 });
      const first = seen.get(key);
      if (first !== undefined) {
        fault(pair.key, `key ${quote(key)} is already set at ${nameOffset(offsetOfNode(first))}: keep one`);
        continue;
      }
      seen.set(key, pair.key);
      if (key === '<<') {
        fault(
          pair.key,
          'merge keys are not part of YAML 1.2: spell the keys out, or use an alias for a whole value',
        );
        continue;
      }
      const value = inside(key, pair.value);
      // A plain assignment would set the prototype.
      if (key === '__proto__') Object.defineProperty(data, key, { value, enumerable: true });
      else data[key] = value;
    }
    return data;
  };

  const dataOfAlias = (alias: Alias): unknown => {
    const target = anchors.get(alias.source);
    if (target === undefined) {
      const wildcard = alias.source.startsWith('.');
      const name = quote(`*${alias.source}`);
      fault(
        alias,
        wildcard
          ? `a wildcard needs quotes: write ${name}`
          : `${name} refers to no anchor above it: put it in quotes if it is text`,
      );
      return undefined;
    }
    aliased += target.values;
    values += target.values;
    if (aliased > MAX_ALIASED_VALUES) {
      if (aliased - target.values <= MAX_ALIASED_VALUES) {
        fault(
          alias,
          `aliases may expand to at most ${MAX_ALIASED_VALUES} values: use fewer, or smaller ones`,
        );
      }
      return undefined;
    }
    targets.set(alias, target.node);
    return target.data;
  };

  const inside = (step: string | number, node: Node | null): unknown => {
    path.push(step);
    const data = dataOf(node);
    path.pop();
    return data;
  };

  return { data: dataOf(root), faults, targets };
}

/** A number or `true` as a key is taken as written; a list or a map is not a key. */
function keyOf(pair: Pair<Node, Node | null>): string | undefined {
  if (!isScalar(pair.key)) return undefined;
  return typeof pair.key.value === 'string' ? pair.key.value : (pair.key.source ?? String(pair.key.value));
}

function offsetOf(root: Node | null, targets: Tree['targets'], path: Path, at: 'key' | 'value'): number {
  let node = root;
  let offset = root === null ? 0 : offsetOfNode(root);
  for (const [i, step] of path.entries()) {
    if (isAlias(node)) node = targets.get(node) ?? null;
    if (isSeq<Node>(node) && typeof step === 'number') {
      node = node.items[step] ?? null;
    } else if (isMap<Node, Node | null>(node)) {
      const pair = node.items.find(item => keyOf(item) === step);
      if (pair === undefined) return offset;
      if (i === path.length - 1 && at === 'key') return offsetOfNode(pair.key);
      node = pair.value ?? pair.key;
    } else {
      return offset;
    }
    if (node === null) return offset;
    offset = offsetOfNode(node);
  }
  return offset;
}

function offsetOfNode(node: Node): number {
  return node.range?.[0] ?? 0;
}

/** The library often reports the consequences of one mistake several times. */
function firstPerLine(mistakes: readonly Mistake[]): readonly Mistake[] {
  const lines = new Set<number>();
  const sorted = mistakes.toSorted((a, b) => a.line - b.line || a.column - b.column);
  return sorted.filter(({ line }) => !lines.has(line) && lines.add(line));
}

/** Converts offsets to lines and columns; indexes the lines on first use. */
function lineIndex(text: string): (offset: number) => Place {
  let starts: number[] | undefined;
  // A mistake at the very end is shown after the last character, not on the empty line that follows.
  let end = 0;
  return offset => {
    if (starts === undefined) {
      starts = lineStarts(text);
      end = text.trimEnd().length;
    }
    const at = Math.min(offset, end);
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= at) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: at - starts[low] + 1 };
  };
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}
