// What the YAML library finds wrong, in words for someone who does not know YAML's grammar by heart.

/** What is used of the library's errors. */
export interface YamlError {
  readonly code: string;
  readonly message: string;
  /** Offsets of the text concerned. */
  readonly pos: readonly [number, number];
}

const UNKNOWN_TAG =
  'tags other than !!str, !!int, !!float, !!bool, !!null, !!map and !!seq are not read: remove it';

const BY_CODE: Readonly<Record<string, string>> = {
  TAB_AS_INDENT: 'tabs cannot indent in YAML: use spaces',
  MULTIPLE_DOCS:
    'a second document begins here: Causeway reads one, so remove the "---" or "..." and what is not meant',
  BLOCK_IN_FLOW: 'a comma is missing in front of the next key, or a block stands inside [ ] or { }',
  BAD_DQ_ESCAPE: 'the backslash begins no escape that YAML knows: double it, or use single quotes',
  KEY_OVER_1024_CHARS: 'a key can have at most 1024 characters',
  RESOURCE_EXHAUSTION: 'is nested too deeply',
  ALIAS_PROPS: 'an alias cannot have an anchor or a tag of its own: remove it',
  MULTIPLE_ANCHORS: 'a value can have only one anchor: remove the others',
  MULTIPLE_TAGS: 'a value can have only one tag: remove them',
};

/** In the order in which they are tried; the first that fits the library's message speaks. */
const BY_MESSAGE: readonly (readonly [RegExp, string])[] = [
  [/Missing closing "quote/, 'the closing " is missing of a value that begins further up'],
  [/Missing closing 'quote/, "the closing ' is missing of a value that begins further up"],
  [/flow map.* end with a \}/i, '"{" is not closed: add "}", and indent what it holds deeper than its key'],
  [
    /flow sequence.* end with a \]/i,
    '"[" is not closed: add "]", and indent what it holds deeper than its key',
  ],
  [/^Missing , or : between/, 'a comma, or a colon with a space, is missing in front of this'],
  [/^Missing , between/, 'a comma is missing in front of this'],
  [/^Missing space after :/, 'a space is missing after the colon'],
  [/^Unexpected , in/, 'there is a comma too many'],
  [/^Unexpected empty item/, 'there is a comma too many'],
  [
    /block-seq-ind on same line with key/,
    'a list item cannot begin on the line of its key: put "- …" on its own line',
  ],
  [/at node end$/, 'does not belong behind the value in front of it: put the whole value in quotes'],
  [
    /^Nested mappings are not allowed/,
    'a value that contains ": " needs quotes; a key needs a line of its own',
  ],
  [/^A block sequence may not be/, 'the list item is not indented like those above it'],
  [/must start at the same column$/, 'is not indented like what stands above it'],
  [/^Implicit map keys need to be followed/, 'there is no ":" behind this: write "key: value"'],
  [
    /^Implicit keys need to be on a single line/,
    'there is no ":" on this line, or it is indented too far: write "key: value"',
  ],
  [/^Plain value cannot start with/, 'a value cannot begin with this character: put it in quotes'],
  [
    /^Sequence item without - indicator/,
    'is not indented like the item above it; a new list item begins with "- "',
  ],
  [/^Alias cannot be an empty string/, 'a value that begins with "*" needs quotes'],
  [/^Comments must be separated/, 'a space is missing in front of "#"'],
  [/^Unresolved tag|^Could not resolve tag|Not a valid tag|[Vv]erbatim tags|tag has no suffix/, UNKNOWN_TAG],
  [/directive/, 'directives, as lines that begin with "%" are called, are not read: remove it'],
  [/^Unexpected .* token/, 'does not belong here: put the value in quotes, or remove this'],
];

export function wordYamlError(error: YamlError): string {
  const byCode = BY_CODE[error.code];
  if (byCode !== undefined) return byCode;
  const entry = BY_MESSAGE.find(([pattern]) => pattern.test(error.message));
  return entry?.[1] ?? `is not YAML: ${error.message}`;
}
