// YAML documents with positions, for Traefik's files and objects: plain values, and where each of them stands.

import { isNode, LineCounter, parseAllDocuments } from 'yaml';
import { isRecord } from '../../config/is-record.ts';
import { describeYamlError } from '../../config/yaml-fault.ts';
import type { Fault, Place, SourceFile } from '../imported.ts';

export type Path = readonly (string | number)[];

export interface YamlDocument {
  readonly value: Readonly<Record<string, unknown>>;
  placeOf(path: Path): Place;
}

export function readDocuments(file: SourceFile): {
  documents: readonly YamlDocument[];
  faults: readonly Fault[];
} {
  const counter = new LineCounter();
  const at = (offset: number): Place => {
    const { line, col } = counter.linePos(offset);
    return { file: file.name, line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const zero = file.text.indexOf('\0');
  if (zero >= 0) {
    const line = file.text.slice(0, zero).split('\n').length;
    return {
      documents: [],
      faults: [
        { place: { file: file.name, line, column: 1 }, text: 'has a NUL byte: this is not a text file' },
      ],
    };
  }
  const parsed = parseAllDocuments(file.text, {
    lineCounter: counter,
    prettyErrors: false,
    logLevel: 'silent',
  });
  const documents: YamlDocument[] = [];
  const faults: Fault[] = [];
  for (const document of Array.isArray(parsed) ? parsed : []) {
    for (const error of document.errors.slice(0, 1))
      faults.push({ place: at(error.pos[0]), text: `is not YAML: ${describeYamlError(error)}` });
    if (document.errors.length > 0) break;
    let value: unknown;
    try {
      value = document.toJS({ maxAliasCount: 1000 });
    } catch {
      faults.push({ place: at(document.range[0]), text: 'its aliases expand to too many values' });
      break;
    }
    if (value === null || value === undefined) continue;
    if (!isRecord(value)) {
      faults.push({
        place: at(document.range[0]),
        text: 'must be a map: tcp: and http: of a file provider, or Kubernetes objects',
      });
      break;
    }
    const placeOf = (path: Path): Place => {
      for (let length = path.length; length > 0; length--) {
        const node = document.getIn(path.slice(0, length), true);
        if (isNode(node) && node.range) return at(node.range[0]);
      }
      return at(document.range[0]);
    };
    documents.push({ value, placeOf });
  }
  return { documents, faults };
}

export function recordAt(value: unknown, ...keys: readonly string[]): Readonly<Record<string, unknown>> {
  let inner: unknown = value;
  for (const key of keys) inner = isRecord(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined;
  return isRecord(inner) ? inner : {};
}

export function listAt(value: unknown, key: string): readonly unknown[] {
  const list = isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  return Array.isArray(list) ? list : [];
}

export function textAt(value: unknown, key: string): string | undefined {
  const text = isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  return typeof text === 'string' ? text : typeof text === 'number' ? String(text) : undefined;
}
