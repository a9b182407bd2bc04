// HAProxy's configuration as data: sections of lines, and how they are written down.

/** HAProxy reads at most 64 words per line, and 2048 characters. */
const WORDS_PER_LINE = 8;

export interface Section {
  /** Lines in front of it, without `#`. */
  readonly comments?: readonly string[];
  /** `frontend listen_6443`. */
  readonly head: string;
  /** `''` is a blank line; `# …` is a comment. */
  readonly lines: readonly string[];
}

export function printSections(sections: readonly Section[]): string {
  return sections.map(printSection).join('\n');
}

function printSection({ comments = [], head, lines }: Section): string {
  const text = [...comments.map(comment => `# ${comment}`), head, ...trimmed(lines).map(indented)];
  return `${text.join('\n')}\n`;
}

/** Without blank lines at the start, at the end, or in a row. */
function trimmed(lines: readonly string[]): readonly string[] {
  return lines.filter(
    (line, index) =>
      line !== '' || (index > 0 && lines[index - 1] !== '' && lines.slice(index).some(rest => rest !== '')),
  );
}

function indented(line: string): string {
  return line === '' ? '' : `    ${line}`;
}

/** One word of HAProxy's language, quoted if it needs to be (Configuration Manual, "Quoting and escaping"). */
export function word(text: string): string {
  if (/^[\w.:/@*,+=~?&;|<>^()[\]{}!-]+$/.test(text)) return text;
  if (!text.includes("'")) return `'${text}'`;
  return `"${text.replace(/[\\"$]/g, '\\$&')}"`;
}

/** The same ACL over as many lines as its values need; HAProxy joins ACLs of one name by "or". */
export function aclLines(name: string, what: string, values: readonly string[]): readonly string[] {
  const lines: string[] = [];
  for (let at = 0; at < values.length; at += WORDS_PER_LINE) {
    const some = values.slice(at, at + WORDS_PER_LINE);
    // Otherwise HAProxy would read it as a flag; a cluster's id may begin so.
    const end = some.some(value => value.startsWith('-')) ? '-- ' : '';
    lines.push(`acl ${name} ${what} ${end}${some.join(' ')}`);
  }
  return lines;
}

/** In HAProxy's units; HAProxy knows no longer time than 24 days. */
export function time(ms: number): string {
  if (ms >= MAX_TIME_MS) return '24d';
  for (const [unit, size] of units) if (ms % size === 0 && ms > 0) return `${ms / size}${unit}`;
  return `${Math.max(1, Math.round(ms))}ms`;
}

const MAX_TIME_MS = 24 * 86_400_000;
const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
] as const;
