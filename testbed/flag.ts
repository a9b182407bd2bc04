/** The arguments of one command-line flag; none if it has no value (undefined, an empty list). */
export function flag(name: string, value: string | number | readonly string[] | undefined): string[] {
  const text = typeof value === 'object' ? value.join(',') : value;
  return text === undefined || text === '' ? [] : [name, String(text)];
}
