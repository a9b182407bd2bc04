// The building blocks of the causeway.yaml schema: zod types with our own message for every mistake.

import { z } from 'zod';
import { nearest } from '../text/nearest.ts';
import { readDuration } from './duration.ts';
import { isRecord } from './is-record.ts';
import { bad, either, good, mustBe, quote, type Reading, show } from './reading.ts';

/** A value that one function reads. */
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
    // zod raises one issue for all unknown keys of a map: one line per key, in the order of `issue.keys`.
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

/** Refuses duplicates in a list; items with the same `textOf` are duplicates. */
export function distinct<T>(textOf: (item: T) => string) {
  return (list: z.core.ParsePayload<T[]>): void => {
    if (list.value.length < 2) return;
    const seen = new Set<string>();
    for (const [i, item] of list.value.entries()) {
      const text = textOf(item);
      if (seen.has(text)) {
        list.issues.push({
          code: 'custom',
          message: `${quote(text)} is already in this list: keep one`,
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

/** Picks a schema by the value; only that schema's mistakes are reported. */
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
    // For the JSON schema of the Helm chart's values.
  }).meta({ enum: [...words] });
}

export function durationOrOff(leastMs: number): z.ZodType<number | 'off'> {
  return field<number | 'off'>(value =>
    value === 'off' ? good('off') : readDuration(value, leastMs, ', or off'),
  );
}

/** A duration that cannot be off; `insteadOfOff` is the message for `off`. */
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

/** Text that only later stages can validate: file names, Kubernetes names, … */
export function text(what: string): z.ZodType<string> {
  return field(value =>
    typeof value === 'string' && /^[^\0]+$/.test(value) ? good(value) : bad(what, value),
  );
}

/** Text that matches a pattern. */
export function form(pattern: RegExp, what: string): z.ZodType<string> {
  return field(value => (typeof value === 'string' && pattern.test(value) ? good(value) : bad(what, value)));
}

/** A map with any content, passed through unchanged. */
export const anyMap: z.ZodType<Record<string, unknown>> = field(value =>
  isRecord(value) ? good(value) : bad('a map', value),
);

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
