// The version, as package.json has it, in a checkout and in an installed package alike.

import { readFileSync } from 'node:fs';

export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
