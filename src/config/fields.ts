// The words that the schema of causeway.yaml is written in: zod, with our own sentences for every mistake.

import { z } from 'zod';
import { nearest } from '../text/nearest.ts';
import { readDuration } from './duration.ts';
import { bad, either, good, mustBe, quote, type Reading, show } from './reading.ts';

/** One value, read by one function. */
export function field<T>(read: (value: unknown) => Reading<T>): z.ZodType<T> {
  return z.unknown().transform((value, context) => {
    const reading = read(value);
    if ('value' in reading) return reading.value;
    context.issues.push({ code: 'custom', message: reading.fault, input: value });
    return z.NEVER;
  });
}

/** A map with these keys and no others. */
export function map<Shape extends z.ZodRawShape>(shape: Shape) {
  const known = Object.keys(shape);
  const what = `a map with the keys ${either(known, 'and')}`;
  return z.strictObject(shape, {
    // One issue stands for all unknown keys of a map: a line for each, in the order of `issue.keys`.
    error: issue =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map(key => unknownKey(key, known)).join('\n')
        : mustBe(what, issue.input),
  });
}

export function list<Item extends z.ZodType>(item: Item, example: string) {
  return z.array(item, {
    error: issue =>
      typeof issue.input === 'string'
        ? mustBe(`a list, here [${quote(issue.input)}]`, issue.input)
        : mustBe(`a list such as ${example}`, issue.input),
  });
}

/** For lists in which nothing may stand twice; `textOf` is what makes two items the same. */
export function distinct<T>(textOf: (item: T) => string) {
  return (list: z.core.ParsePayload<T[]>): void => {
    if (list.value.length < 2) return;
    const seen = new Set<string>();
    for (const [i, item] of list.value.entries()) {
      const text = textOf(item);
      if (seen.has(text)) {
        list.issues.push({
          code: 'custom',
          message: `${quote(text)} stands in this list already: keep one`,
          path: [i],
          input: item,
        });
      }
      seen.add(text);
    }
  };
}

/** A map whose keys the user chooses. */
export function record<Value extends z.ZodType>(
  readKey: (key: string) => Reading<string>,
  value: Value,
  what: string,
) {
  const key = z.string().check(context => {
    const reading = readKey(context.value);
    if ('fault' in reading)
      context.issues.push({ code: 'custom', message: reading.fault, input: context.value });
  });
  return z.record(key, value, { error: issue => mustBe(what, issue.input) });
}

/** The schema that fits the look of the value; its mistakes are told as if it stood here alone. */
export function choose<T>(pick: (value: unknown) => z.ZodType<T>): z.ZodType<T> {
  return z.unknown().transform((value, context) => {
    const result = pick(value).safeParse(value);
    if (result.success) return result.data;
    for (const issue of result.error.issues)
      context.issues.push({ ...issue, input: value } as z.core.$ZodRawIssue);
    return z.NEVER;
  });
}

export function oneOf<const Word extends string>(words: readonly Word[]): z.ZodType<Word> {
  return field<Word>(value => {
    const word = words.find(one => one === value);
    if (word !== undefined) return good(word);
    const meant = typeof value === 'string' ? nearest(value, words) : undefined;
    const { fault } = bad(words.length === 1 ? quote(words[0]) : either(words), value);
    return { fault: meant === undefined ? fault : `${fault}; did you mean ${quote(meant)}?` };
  });
}

export function durationOrOff(leastMs: number): z.ZodType<number | 'off'> {
  return field<number | 'off'>(value =>
    value === 'off' ? good('off') : readDuration(value, leastMs, ', or off'),
  );
}

/** A duration that cannot be switched off; the message for `off` says what to write instead. */
export function durationMs(leastMs: number, insteadOfOff: string): z.ZodType<number> {
  return field(value => (value === 'off' ? { fault: insteadOfOff } : readDuration(value, leastMs)));
}

export function wholeNumber(least: number, most: number): z.ZodType<number> {
  return field(value => readWholeNumber(value, least, most));
}

/** At least 1, or `off`. */
export const limit: z.ZodType<number | 'off'> = field<number | 'off'>(value =>
  value === 'off' ? good('off') : readWholeNumber(value, 1, Number.MAX_SAFE_INTEGER, ', or off'),
);

export const flag: z.ZodType<boolean> = field(value =>
  typeof value === 'boolean' ? good(value) : bad('true or false', value),
);

/** Text that only later stages can judge: file names, Kubernetes names, … */
export function text(what: string): z.ZodType<string> {
  return field(value =>
    typeof value === 'string' && /^[^\0]+$/.test(value) ? good(value) : bad(what, value),
  );
}

/** Text in a given form. */
export function form(pattern: RegExp, what: string): z.ZodType<string> {
  return field(value => (typeof value === 'string' && pattern.test(value) ? good(value) : bad(what, value)));
}

/** A map that carries whatever a later stage hands on as it is. */
export const anyMap: z.ZodType<Record<string, unknown>> = field(value =>
  isRecord(value) ? good(value) : bad('a map', value),
);

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function readWholeNumber(value: unknown, least: number, most: number, also = ''): Reading<number> {
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) {
    return good(value as number);
  }
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  const quoted = typeof value === 'string' && /^\d+$/.test(value) ? ', without quotes' : '';
  return bad(`a whole number ${range}${also}${quoted}`, value);
}

function unknownKey(key: string, known: readonly string[]): string {
  if (key === 'true' && known.includes('on')) {
    return 'unknown key "true"; did you mean "on"? (YAML 1.1 tools turn on into true: quote it)';
  }
  const [word, value] = key.split(':', 2);
  if (value !== undefined && known.includes(word))
    return `unknown key ${show(key)}; a space is missing after the colon`;
  const meant = nearest(key, known);
  if (meant !== undefined) return `unknown key ${show(key)}; did you mean ${quote(meant)}?`;
  return `unknown key ${show(key)}; allowed here: ${known.join(', ')}`;
}
