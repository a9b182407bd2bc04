// Where the program's own files are. In a checkout they are TypeScript in src/; in a package they are JavaScript in
// lib/, and this module is part of one of the files directly in there (packaging/build-program.ts).

/** Whether the program runs from its sources. */
export const inCheckout = import.meta.url.endsWith('.ts');

/** The entry point of a thread, by its path from src/ without extension: `gateway/worker`. */
export function threadEntry(path: string): URL {
  return programFile(`${path}.${inCheckout ? 'ts' : 'js'}`);
}

/** By its path from src/ or lib/, which are side by side: `../package.json`. */
export function programFile(path: string): URL {
  return new URL(path, import.meta.url);
}
