// The version in package.json, in a checkout as well as in an installed package.

import { readFileSync } from 'node:fs';
import { programFile } from '../program-file.ts';

export function version(): string {
  const text = readFileSync(programFile('../package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
