// The report about a failed test file: each failure, the logs of the programs that the failed test
// started, and the end of what the file itself printed.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestFileResult } from './run-test-file.ts';

const LOG_LINES = 40;
const OUTPUT_LINES = 60;

interface ProgramLog {
  readonly test?: string;
  readonly command: string;
  readonly text: string;
}

/** Paragraphs, indented below the file's line. */
export function describeFailure({ file, failures, output, logs }: TestFileResult): string {
  const programs = readLogs(logs);
  const paragraphs = failures.flatMap(({ test, line, text }) => [
    `✗ ${test || file} (${file}:${line})\n${text}`,
    ...programs
      .filter(program => program.test === test || test === '')
      .map(({ command, text }) => `log of ${command}\n${lastLines(text, LOG_LINES)}`),
  ]);
  if (output.trim() !== '') paragraphs.push(`output of ${file}\n${lastLines(output, OUTPUT_LINES)}`);
  return paragraphs.map(indent).join('\n\n');
}

function readLogs(directory: string): ProgramLog[] {
  return readdirSync(directory)
    .toSorted()
    .map(name => {
      const content = readFileSync(join(directory, name), 'utf8');
      const end = content.indexOf('\n');
      return { ...JSON.parse(content.slice(0, end)), text: content.slice(end + 1) };
    });
}

function lastLines(text: string, count: number): string {
  const lines = text.trimEnd().split('\n');
  const before = lines.length - count;
  return (before > 0 ? [`(${before} lines before)`, ...lines.slice(-count)] : lines).join('\n');
}

function indent(text: string): string {
  return text.replaceAll(/^(?=.)/gm, '    ');
}
