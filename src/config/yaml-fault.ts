// Translates errors of the YAML library for people who do not know the YAML grammar by heart.

/** The fields we use of the library's errors. */
export interface YamlError {
  readonly code: string;
  readonly message: string;
  /** Start and end offset. */
  readonly pos: readonly [number, number];
}

const UNKNOWN_TAG =
  'tags other than !!str, !!int, !!float, !!bool, !!null, !!map and !!seq are not supported: remove it';

const BY_CODE: Readonly<Record<string, string>> = {
  TAB_AS_INDENT: 'tabs cannot indent in YAML: use spaces',
  MULTIPLE_DOCS:
    'a second document starts here, but Causeway reads only one: remove the "---" or "...", or one of the documents',
  BLOCK_IN_FLOW: 'a comma is missing before the next key, or a block is inside [ ] or { }',
  BAD_DQ_ESCAPE: 'the backslash does not start a YAML escape: double it, or use single quotes',
  KEY_OVER_1024_CHARS: 'a key can have at most 1024 characters',
  RESOURCE_EXHAUSTION: 'is nested too deeply',
  ALIAS_PROPS: 'an alias cannot have its own anchor or tag: remove it',
  MULTIPLE_ANCHORS: 'a value can have only one anchor: remove the others',
  MULTIPLE_TAGS: 'a value can have only one tag: remove them',
};

/** Tried in order; the first pattern that matches the library's message wins. */
const BY_MESSAGE: readonly (readonly [RegExp, string])[] = [
  [/Missing closing "quote/, 'a value that starts further up has no closing "'],
  [/Missing closing 'quote/, "a value that starts further up has no closing '"],
  [/flow map.* end with a \}/i, '"{" is not closed: add "}", and indent its contents more than its key'],
  [/flow sequence.* end with a \]/i, '"[" is not closed: add "]", and indent its contents more than its key'],
  [/^Missing , or : between/, 'a comma, or a colon with a space, is missing before this'],
  [/^Missing , between/, 'a comma is missing before this'],
  [/^Missing space after :/, 'a space is missing after the colon'],
  [/^Unexpected , in/, 'there is an extra comma: remove it'],
  [/^Unexpected empty item/, 'there is an extra comma: remove it'],
  [
    /block-seq-ind on same line with key/,
    'a list item cannot start on the same line as its key: put "- …" on its own line',
  ],
  [/at node end$/, 'unexpected text after a value: put the whole value in quotes'],
  [/^Nested mappings are not allowed/, 'a value that contains ": " needs quotes; a key needs its own line'],
  [/^A block sequence may not be/, 'the list item is not indented like those above it'],
  [/must start at the same column$/, 'is not indented like the lines above it'],
  [/^Implicit map keys need to be followed/, 'there is no ":" after this: write "key: value"'],
  [
    /^Implicit keys need to be on a single line/,
    'there is no ":" on this line, or it is indented too far: write "key: value"',
  ],
  [/^Plain value cannot start with/, 'a value cannot start with this character: put it in quotes'],
  [
    /^Sequence item without - indicator/,
    'is not indented like the item above it; a new list item starts with "- "',
  ],
  [/^Alias cannot be an empty string/, 'a value that starts with "*" needs quotes'],
  [/^Comments must be separated/, 'a space is missing before "#"'],
  [/^Unresolved tag|^Could not resolve tag|Not a valid tag|[Vv]erbatim tags|tag has no suffix/, UNKNOWN_TAG],
  [/directive/, 'directives (lines that start with "%") are not supported: remove it'],
  [/^Unexpected .* token/, 'does not belong here: put the value in quotes, or remove this'],
];

export function describeYamlError(error: YamlError): string {
  const byCode = BY_CODE[error.code];
  if (byCode !== undefined) return byCode;
  const entry = BY_MESSAGE.find(([pattern]) => pattern.test(error.message));
  return entry?.[1] ?? `is not YAML: ${error.message}`;
}
